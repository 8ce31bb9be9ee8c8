"""The configuration that a runtime is built from, and the way from a file to it.

    config = load_config("config/tavern.yaml")

Importing this is cheap: the YAML reader and cattrs are imported on use.
"""

from .admission import Approve as Approve
from .admission import admitted as admitted
from .builtin import NO_GROUPS as NO_GROUPS
from .builtin import BuiltinConfig as BuiltinConfig
from .builtin import DiceConfig as DiceConfig
from .builtin import DualityConfig as DualityConfig
from .builtin import FilesConfig as FilesConfig
from .builtin import ImagesConfig as ImagesConfig
from .builtin import MemoryToolsConfig as MemoryToolsConfig
from .builtin import MusicConfig as MusicConfig
from .builtin import RulesConfig as RulesConfig
from .builtin import SearchConfig as SearchConfig
from .builtin import SearchEngine as SearchEngine
from .builtin import SessionsToolsConfig as SessionsToolsConfig
from .builtin import WebConfig as WebConfig
from .formats import read_text as read_text
from .llm import LlmConfig as LlmConfig
from .llm import ModelConfig as ModelConfig
from .load import load_as as load_as
from .load import load_config as load_config
from .load import load_mcp_json as load_mcp_json
from .load import load_text as load_text
from .load import parse as parse
from .mcp import McpConfig as McpConfig
from .model import CalibrationConfig as CalibrationConfig
from .model import Config as Config
from .model import NpcConfig as NpcConfig
from .model import OverloadConfig as OverloadConfig
from .model import SelectorConfig as SelectorConfig
from .model import SpeculationConfig as SpeculationConfig
from .model import TelemetryConfig as TelemetryConfig
from .model import TrustConfig as TrustConfig
from .model import TurnConfig as TurnConfig
from .overrides import ToolOverride as ToolOverride
from .presets import Provider as Provider
from .problems import ConfigError as ConfigError
from .servers import McpDefaults as McpDefaults
from .servers import OAuth as OAuth
from .servers import RestartConfig as RestartConfig
from .servers import ServerSpec as ServerSpec
from .servers import Transport as Transport
from .shared import LeftOut as LeftOut
from .shared import SharedServer as SharedServer
