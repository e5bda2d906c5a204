package tidewire

import "encoding/json"

const principalHeader = "tidewire-principal"

// Principal is who calls: its subject by the word of an issuer, its scopes, and other claims.
type Principal struct {
	Issuer  string         `json:"issuer"`
	Subject string         `json:"subject"`
	Scopes  []string       `json:"scopes"`
	Claims  map[string]any `json:"claims"`
}

// ParsePrincipal reads the header Tidewire-Principal of a page; nil without one.
func ParsePrincipal(header string) *Principal {
	var principal Principal
	if header == "" || json.Unmarshal([]byte(header), &principal) != nil {
		return nil
	}
	return &principal
}

// HasScope says whether the caller is allowed to do this; nobody is.
func (p *Principal) HasScope(scope string) bool {
	if p == nil {
		return false
	}
	for _, known := range p.Scopes {
		if known == scope {
			return true
		}
	}
	return false
}

// Principal is who calls, as the gateway found out; nil where it did not, and where the reply is cached for others too.
func (c *Context) Principal() *Principal { return ParsePrincipal(c.Header(principalHeader)) }

// AsCaller makes a call with the rights of its caller; it is for Context.Call. Without it the program calls as itself.
func AsCaller(o *options) { WithHeader("tidewire-rights", "caller")(o) }
