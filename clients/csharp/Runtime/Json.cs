// JSON, for messages of the gateway. Unity's JsonUtility reads only fields that are known
// when a game is built, and events have fields of their kind; Newtonsoft's package would
// be a dependency of every game that uses this one. So here are a reader and a writer.
using System;
using System.Collections;
using System.Collections.Generic;
using System.Globalization;
using System.Text;

namespace Glyphoxa
{
    /// <summary>Text of JSON as values, and values as text. An object is a
    /// Dictionary&lt;string, object&gt;, an array a List&lt;object&gt;, a number a long or
    /// else a double.</summary>
    public static class Json
    {
        private const int DeepestNesting = 64;

        /// <summary>Read a text that holds one value.</summary>
        /// <exception cref="FormatException">It is not JSON, or nested more than 64 deep.
        /// </exception>
        public static object Read(string text)
        {
            var reader = new Reader(text);
            object value = reader.Value(0);
            reader.ExpectEnd();
            return value;
        }

        /// <summary>Write a value: null, a bool, a string, a number, a dictionary with
        /// strings for keys, or a sequence of such.</summary>
        /// <exception cref="ArgumentException">It has another type, or is no finite
        /// number.</exception>
        public static string Write(object value)
        {
            var text = new StringBuilder();
            Write(value, text);
            return text.ToString();
        }

        private static void Write(object value, StringBuilder text)
        {
            if (value == null)
                text.Append("null");
            else if (value is bool truth)
                text.Append(truth ? "true" : "false");
            else if (value is string words)
                WriteString(words, text);
            else if (value is int || value is long)
                text.Append(Convert.ToInt64(value).ToString(CultureInfo.InvariantCulture));
            else if (value is double number && IsFinite(number))
                text.Append(number.ToString("R", CultureInfo.InvariantCulture));
            else if (value is IDictionary fields)
                WriteObject(fields, text);
            else if (value is IEnumerable items)
                WriteArray(items, text);
            else
                throw new ArgumentException("JSON has no " + value.GetType().Name);
        }

        private static bool IsFinite(double number)
        {
            return !double.IsNaN(number) && !double.IsInfinity(number);
        }

        private static void WriteObject(IDictionary fields, StringBuilder text)
        {
            text.Append('{');
            bool first = true;
            foreach (DictionaryEntry field in fields)
            {
                if (!first) text.Append(',');
                first = false;
                WriteString((string)field.Key, text);
                text.Append(':');
                Write(field.Value, text);
            }
            text.Append('}');
        }

        private static void WriteArray(IEnumerable items, StringBuilder text)
        {
            text.Append('[');
            bool first = true;
            foreach (object item in items)
            {
                if (!first) text.Append(',');
                first = false;
                Write(item, text);
            }
            text.Append(']');
        }

        private static void WriteString(string words, StringBuilder text)
        {
            text.Append('"');
            foreach (char letter in words)
            {
                if (letter == '"' || letter == '\\')
                    text.Append('\\').Append(letter);
                else if (letter < ' ')
                    text.Append("\\u").Append(((int)letter).ToString("x4"));
                else
                    text.Append(letter);
            }
            text.Append('"');
        }

        private sealed class Reader
        {
            private readonly string _text;
            private int _at;

            public Reader(string text)
            {
                _text = text;
            }

            public void ExpectEnd()
            {
                if (Peek() != '\0') throw Wrong("more than one value");
            }

            public object Value(int depth)
            {
                if (depth > DeepestNesting) throw Wrong("nested too deep");
                switch (Peek())
                {
                    case '{':
                        return Object(depth);
                    case '[':
                        return Array(depth);
                    case '"':
                        return String();
                    case 't':
                        return Word("true", true);
                    case 'f':
                        return Word("false", false);
                    case 'n':
                        return Word("null", null);
                    default:
                        return Number();
                }
            }

            private Dictionary<string, object> Object(int depth)
            {
                var fields = new Dictionary<string, object>();
                _at++;
                if (Skips('}')) return fields;
                do
                {
                    if (Peek() != '"') throw Wrong("a name is missing");
                    string name = String();
                    if (!Skips(':')) throw Wrong("a colon is missing");
                    fields[name] = Value(depth + 1);
                }
                while (Skips(','));
                if (!Skips('}')) throw Wrong("an object does not end");
                return fields;
            }

            private List<object> Array(int depth)
            {
                var items = new List<object>();
                _at++;
                if (Skips(']')) return items;
                do
                {
                    items.Add(Value(depth + 1));
                }
                while (Skips(','));
                if (!Skips(']')) throw Wrong("an array does not end");
                return items;
            }

            private string String()
            {
                var words = new StringBuilder();
                _at++;
                while (true)
                {
                    char letter = Next();
                    if (letter == '"') return words.ToString();
                    if (letter < ' ') throw Wrong("a string does not end");
                    words.Append(letter == '\\' ? Escaped() : letter);
                }
            }

            private char Escaped()
            {
                char letter = Next();
                switch (letter)
                {
                    case '"':
                    case '\\':
                    case '/':
                        return letter;
                    case 'b':
                        return '\b';
                    case 'f':
                        return '\f';
                    case 'n':
                        return '\n';
                    case 'r':
                        return '\r';
                    case 't':
                        return '\t';
                    case 'u':
                        int code = 0;
                        for (int i = 0; i < 4; i++) code = code * 16 + HexDigit(Next());
                        return (char)code;
                    default:
                        throw Wrong("an escape that JSON does not have");
                }
            }

            private int HexDigit(char letter)
            {
                int value = "0123456789abcdef".IndexOf(char.ToLowerInvariant(letter));
                if (value < 0) throw Wrong("no hexadecimal digit");
                return value;
            }

            private object Word(string word, object value)
            {
                if (string.CompareOrdinal(_text, _at, word, 0, word.Length) != 0)
                    throw Wrong("no value");
                _at += word.Length;
                return value;
            }

            private object Number()
            {
                int from = _at;
                while (_at < _text.Length && "+-.0123456789eE".IndexOf(_text[_at]) >= 0) _at++;
                string digits = _text.Substring(from, _at - from);
                if (long.TryParse(digits, NumberStyles.AllowLeadingSign,
                        CultureInfo.InvariantCulture, out long whole))
                    return whole;
                if (double.TryParse(digits, NumberStyles.Float,
                        CultureInfo.InvariantCulture, out double number))
                    return number;
                throw Wrong("no value");
            }

            /// <summary>The next letter that is no space, or '\0' at the end.</summary>
            private char Peek()
            {
                while (_at < _text.Length && " \t\r\n".IndexOf(_text[_at]) >= 0) _at++;
                return _at < _text.Length ? _text[_at] : '\0';
            }

            private char Next()
            {
                if (_at == _text.Length) throw Wrong("it breaks off");
                return _text[_at++];
            }

            private bool Skips(char letter)
            {
                if (Peek() != letter) return false;
                _at++;
                return true;
            }

            private FormatException Wrong(string how)
            {
                return new FormatException("no JSON at " + _at + ": " + how);
            }
        }
    }
}
