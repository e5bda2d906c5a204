// Who calls, as the gateway says in a header: JSON, which not every framework reads by itself.

using System;
using System.Collections.Generic;
using System.Globalization;
using System.Linq;
using System.Text;

namespace Tidewire
{
    /// <summary>Who calls.</summary>
    public sealed class Principal
    {
        /// <summary>Makes a principal.</summary>
        public Principal(
            string issuer,
            string subject,
            IEnumerable<string>? scopes = null,
            IReadOnlyDictionary<string, object?>? claims = null)
        {
            this.Issuer = issuer ?? throw new ArgumentNullException(nameof(issuer));
            this.Subject = subject ?? throw new ArgumentNullException(nameof(subject));
            this.Scopes = scopes?.ToArray() ?? Array.Empty<string>();
            this.Claims = claims ?? new Dictionary<string, object?>();
        }

        /// <summary>Who vouches for the caller.</summary>
        public string Issuer { get; }

        /// <summary>The caller's name with its issuer.</summary>
        public string Subject { get; }

        /// <summary>What the caller is allowed to do.</summary>
        public IReadOnlyList<string> Scopes { get; }

        /// <summary>
        /// What else is known of the caller, as JSON has it: <c>string</c>, <c>long</c>,
        /// <c>double</c>, <c>bool</c>, null, lists and dictionaries of these.
        /// </summary>
        public IReadOnlyDictionary<string, object?> Claims { get; }

        /// <summary>
        /// Reads the header <c>tidewire-principal</c> of a page; null without one.
        /// </summary>
        public static Principal? Parse(string? header)
        {
            if (string.IsNullOrEmpty(header))
            {
                return null;
            }
            var said = (Dictionary<string, object?>)new JsonText(header!).Value()!;
            return new Principal(
                (string)said["issuer"]!,
                (string)said["subject"]!,
                (said.GetValueOrDefault("scopes") as List<object?>)?.Cast<string>(),
                said.GetValueOrDefault("claims") as Dictionary<string, object?>);
        }

        /// <summary>Whether the caller is allowed to do this.</summary>
        public bool HasScope(string scope) => this.Scopes.Contains(scope);

        /// <inheritdoc/>
        public override string ToString() => this.Issuer + " " + this.Subject;

        internal static IEnumerable<Header> AsCaller(IEnumerable<Header>? headers) =>
            (headers ?? Array.Empty<Header>()).Append(new Header("tidewire-rights", "caller"));

        /// <summary>JSON as the gateway writes it, which is well formed.</summary>
        private sealed class JsonText
        {
            private readonly string text;
            private int at;

            internal JsonText(string text) => this.text = text;

            internal object? Value()
            {
                switch (this.Next())
                {
                    case '{':
                        var members = new Dictionary<string, object?>();
                        for (this.at++; this.Goes('}');)
                        {
                            var name = this.Text();
                            this.Next();
                            this.at++; // The colon.
                            members[name] = this.Value();
                        }
                        return members;
                    case '[':
                        var items = new List<object?>();
                        for (this.at++; this.Goes(']');)
                        {
                            items.Add(this.Value());
                        }
                        return items;
                    case '"':
                        return this.Text();
                    default:
                        return this.Word();
                }
            }

            /// <summary>The next sign that is no space and no comma.</summary>
            private char Next()
            {
                while (this.text[this.at] == ' ' || this.text[this.at] == ',')
                {
                    this.at++;
                }
                return this.text[this.at];
            }

            /// <summary>Whether there is more before this end, which is taken.</summary>
            private bool Goes(char end)
            {
                var goes = this.Next() != end;
                this.at += goes ? 0 : 1;
                return goes;
            }

            private string Text()
            {
                this.Next();
                var found = new StringBuilder();
                for (this.at++; this.text[this.at] != '"'; this.at++)
                {
                    found.Append(this.text[this.at] == '\\' ? this.Escaped() : this.text[this.at]);
                }
                this.at++;
                return found.ToString();
            }

            private char Escaped()
            {
                var sign = this.text[++this.at];
                var plain = "bfnrt".IndexOf(sign);
                if (sign == 'u')
                {
                    this.at += 4;
                    return (char)ushort.Parse(this.text.Substring(this.at - 3, 4), NumberStyles.HexNumber, CultureInfo.InvariantCulture);
                }
                return plain < 0 ? sign : "\b\f\n\r\t"[plain];
            }

            private object? Word()
            {
                var begin = this.at;
                while (this.at < this.text.Length && " ,]}".IndexOf(this.text[this.at]) < 0)
                {
                    this.at++;
                }
                var word = this.text.Substring(begin, this.at - begin);
                switch (word)
                {
                    case "null":
                        return null;
                    case "true":
                        return true;
                    case "false":
                        return false;
                }
                if (long.TryParse(word, NumberStyles.AllowLeadingSign, CultureInfo.InvariantCulture, out var whole))
                {
                    return whole;
                }
                return double.Parse(word, CultureInfo.InvariantCulture);
            }
        }
    }
}
