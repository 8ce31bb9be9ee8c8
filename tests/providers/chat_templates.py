"""Chat templates of model families, in our own words, by the rules that each documents.

They are as strict as the originals: what those raise an exception for is raised here.
What they print is only as close as the tests need it.
"""

from __future__ import annotations

from typing import Any, Final

from jinja2.exceptions import TemplateError
from jinja2.sandbox import ImmutableSandboxedEnvironment

_ROLES: Final = "Conversation roles must alternate user/assistant/user/assistant/..."

# Roles alternate, calls and their results aside; ids have nine signs.
_MISTRAL: Final = """
{%- if messages[0].role == 'system' %}{% set told = messages[0].content %}
{%- set rest = messages[1:] %}{% else %}{% set told = '' %}
{%- set rest = messages %}{% endif %}
{%- set ns = namespace(n=0, last=0) %}
{%- for m in rest %}
  {%- if m.role == 'user' %}{% set ns.last = loop.index0 %}{% endif %}
  {%- if m.role == 'user' or (m.role == 'assistant' and not m.tool_calls) %}
    {%- if (m.role == 'user') != (ns.n % 2 == 0) %}
      {{- raise_exception('After the optional system message, conversation roles must
        alternate user/assistant/user/assistant/...') }}
    {%- endif %}
    {%- set ns.n = ns.n + 1 %}
  {%- endif %}
{%- endfor %}
{{- '<s>' }}
{%- for m in rest %}
  {%- if m.role == 'user' %}
    {%- set last = loop.index0 == ns.last %}
    {%- if last and tools %}[TOOLS]{{ tools | tojson }}[/TOOLS]{% endif %}
    {{- '[INST]' + (told + '\n\n' if last and told else '') + m.content }}[/INST]
  {%- elif m.role == 'assistant' and m.tool_calls %}
    {{- '[TOOL_CALLS][' }}
    {%- for call in m.tool_calls %}
      {%- if call.id is undefined or call.id | length != 9 %}
        {{- raise_exception('Tool call IDs should be alphanumeric strings with
          length 9!') }}
      {%- endif %}
      {{- call.function | tojson }}
    {%- endfor %}]</s>
  {%- elif m.role == 'assistant' %}{{ m.content + '</s>' }}
  {%- elif m.role == 'tool' %}
    {%- if m.tool_call_id | length != 9 %}
      {{- raise_exception('Tool call IDs should be alphanumeric strings with
        length 9!') }}
    {%- endif %}[TOOL_RESULTS]{{ m.content }}[/TOOL_RESULTS]
  {%- else %}
    {{- raise_exception('Only user and assistant roles are supported, with the
      exception of an initial optional system message!') }}
  {%- endif %}
{%- endfor %}
"""

_GEMMA: Final = """
{{- '<bos>' }}
{%- if messages[0].role == 'system' %}
  SYSTEM
{%- else %}{% set first = '' %}{% set rest = messages %}{% endif %}
{%- for m in rest %}
  {%- if (m.role == 'user') != (loop.index0 % 2 == 0) %}
    {{- raise_exception('ROLES') }}
  {%- endif %}
  {%- set role = 'model' if m.role == 'assistant' else m.role %}
  {{- '<start_of_turn>' + role + '\n' + (first if loop.first else '') }}
  {{- m.content | trim }}<end_of_turn>
{%- endfor %}
{%- if add_generation_prompt %}<start_of_turn>model
{% endif %}
""".replace("ROLES", _ROLES)

_GEMMA2: Final = _GEMMA.replace(
    "SYSTEM", "{{- raise_exception('System role not supported') }}"
)
_GEMMA3: Final = _GEMMA.replace(
    "SYSTEM",
    "{%- set first = messages[0].content + '\n\n' %}{% set rest = messages[1:] %}",
)

# The tools stand in the first user's words; a message has one call at most.
_LLAMA31: Final = """
{%- if messages[0].role == 'system' %}{% set told = messages[0].content | trim %}
{%- set rest = messages[1:] %}{% else %}{% set told = '' %}
{%- set rest = messages %}{% endif %}
{{- '<|begin|><|head|>system<|end|>' + told }}
{%- if tools %}
  {%- if not rest %}
    {{- raise_exception('Cannot put tools in the first user message when there is no
      first user message!') }}
  {%- endif %}
  {{- '<|head|>user<|end|>' + (tools | tojson) + rest[0].content }}
  {%- set rest = rest[1:] %}
{%- endif %}
{%- for m in rest %}
  {%- if not (m.role == 'tool' or m.tool_calls) %}
    {{- '<|head|>' + m.role + '<|end|>' + m.content | trim }}
  {%- elif m.tool_calls %}
    {%- if m.tool_calls | length != 1 %}
      {{- raise_exception('This model only supports single tool-calls at once!') }}
    {%- endif %}
    {{- '<|head|>assistant<|end|>' + m.tool_calls[0].function | tojson }}
  {%- else %}{{ '<|head|>ipython<|end|>' + (m.content | tojson) }}{% endif %}
{%- endfor %}
"""

# Anything in any order; results stand in a user's turn.
_CHATML_TOOLS: Final = """
{%- if messages[0].role == 'system' %}{{ '<|im_start|>system\n' + messages[0].content }}
{%- else %}<|im_start|>system
You help.{% endif %}
{%- if tools %}<tools>{{ tools | tojson }}</tools>{% endif %}<|im_end|>
{%- for m in messages %}
  {%- if m.role == 'user' or (m.role == 'system' and not loop.first) %}
    {{- '<|im_start|>' + m.role + '\n' + m.content }}<|im_end|>
  {%- elif m.role == 'assistant' %}
    {{- '<|im_start|>assistant\n' + (m.content or '') }}
    {%- for call in m.tool_calls or [] %}
      {{- '<tool_call>' + call.function.name + call.function.arguments }}</tool_call>
    {%- endfor %}<|im_end|>
  {%- elif m.role == 'tool' %}
    {%- if messages[loop.index0 - 1].role not in ('tool', 'assistant') %}
      {{- raise_exception('a tool message that follows no call') }}
    {%- endif %}
    {{- '<|im_start|>user\n<tool_response>' + m.content }}</tool_response><|im_end|>
  {%- endif %}
{%- endfor %}
"""
# Looks for the last thing that a user asked.
_QWEN3: Final = (
    """
{%- set ns = namespace(asked=false) %}
{%- for m in messages %}{% if m.role == 'user' %}{% set ns.asked = true %}{% endif %}
{%- endfor %}
{%- if not ns.asked %}{{ raise_exception('No user query found in messages.') }}
{%- endif %}
"""
    + _CHATML_TOOLS
)

_DEEPSEEK_R1: Final = """
{%- set ns = namespace(told='', tool=false) %}
{%- for m in messages %}
  {%- if m.role == 'system' %}{% set ns.told = m.content %}{% endif %}
{%- endfor %}
{{- '<|begin|>' + ns.told }}
{%- for m in messages %}
  {%- if m.role == 'user' %}{{ '<|User|>' + m.content }}
  {%- elif m.role == 'assistant' and m.tool_calls %}
    {%- for call in m.tool_calls %}
      {{- '<|call|>' + call.type + call.function.name + call.function.arguments }}
    {%- endfor %}
  {%- elif m.role == 'assistant' %}
    {{- '<|Assistant|>' + m.content.split('</think>')[-1] }}
  {%- elif m.role == 'tool' %}{{ '<|output|>' + m.content }}{% endif %}
{%- endfor %}
{%- if add_generation_prompt %}<|Assistant|><think>
{% endif %}
"""

_PHI4: Final = """
{%- for m in messages %}
  {%- if m.role in ('system', 'user', 'assistant') %}
    {{- '<|im_start|>' + m.role + '<|im_sep|>' + (m.content or '') }}<|im_end|>
  {%- endif %}
{%- endfor %}
"""

_GRANITE: Final = """
{%- if messages[0].role == 'system' %}{% set told = messages[0].content %}
{%- set rest = messages[1:] %}{% else %}{% set told = 'You are Granite.' %}
{%- set rest = messages %}{% endif %}
{{- '<|role|>system<|end|>' + told }}
{%- if tools %}<|role|>available_tools<|end|>{{ tools | tojson(indent=4) }}{% endif %}
{%- for m in rest %}
  {%- if m.role not in ('user', 'assistant', 'tool') %}
    {{- raise_exception('unknown role ' + m.role) }}
  {%- endif %}
  {{- '<|role|>' + m.role + '<|end|>' + (m.content or m.tool_calls | tojson) }}
{%- endfor %}
"""

_COMMAND_R: Final = """
{%- if messages[0].role == 'system' %}{% set told = messages[0].content %}
{%- set rest = messages[1:] %}{% else %}{% set told = 'You are Command-R.' %}
{%- set rest = messages %}{% endif %}
{{- '<BOS>' + told }}
{%- for m in rest %}
  {%- if (m.role == 'user') != (loop.index0 % 2 == 0) %}
    {{- raise_exception('ROLES') }}
  {%- endif %}
  {{- ('<|USER|>' if m.role == 'user' else '<|CHATBOT|>') + m.content.strip() }}
{%- endfor %}
""".replace("ROLES", _ROLES)

_CHATML: Final = """
{%- for m in messages %}
  {%- if loop.first and messages[0].role != 'system' %}<|im_start|>system
You help.<|im_end|>
  {%- endif %}
  {{- '<|im_start|>' + m.role + '\n' + (m.content or '') + '<|im_end|>\n' }}
{%- endfor %}
"""

TEMPLATES: Final = {
    "mistral": _MISTRAL,
    "gemma 2": _GEMMA2,
    "gemma 3": _GEMMA3,
    "llama 3.1": _LLAMA31,
    "qwen 2.5, hermes": _CHATML_TOOLS,
    "qwen 3": _QWEN3,
    "deepseek r1": _DEEPSEEK_R1,
    "phi 4": _PHI4,
    "granite": _GRANITE,
    "command r": _COMMAND_R,
    "smollm2": _CHATML,
}
SILENT: Final = ("phi 4",)
"""Families whose template leaves out results of tools without a word."""


class Refused(Exception):
    """What a template raised."""


def _raise(words: str) -> None:
    raise Refused(" ".join(words.split()))


_ENVIRONMENT: Final = ImmutableSandboxedEnvironment(
    trim_blocks=True, lstrip_blocks=True, extensions=["jinja2.ext.loopcontrols"]
)
_ENVIRONMENT.globals["raise_exception"] = _raise
_COMPILED: Final = {
    family: _ENVIRONMENT.from_string(text) for family, text in TEMPLATES.items()
}


def render(family: str, body: dict[str, Any]) -> str:
    """The prompt that a server makes of a request. Raises `Refused`."""
    try:
        return _COMPILED[family].render(
            messages=body["messages"],
            tools=body.get("tools"),
            add_generation_prompt=True,
        )
    except (TemplateError, TypeError) as error:
        # A server answers 500 to these, with the same words.
        raise Refused(str(error)) from error
