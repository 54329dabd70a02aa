package pki

import (
	"bytes"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"unicode/utf8"

	"golang.org/x/crypto/cryptobyte"
	cryptobyteasn1 "golang.org/x/crypto/cryptobyte/asn1"

	"github.com/aibridge/aibridge/commands/schema"
	"github.com/aibridge/aibridge/protocol"
)

// A Scope limits the use of a certificate. It stands in the certificate
// itself, in an extension of our own (docs/certificates.md).
type Scope struct {
	Version int                  `json:"v"`    // 1
	Kind    protocol.Kind        `json:"kind"` // of the holder: agent, skill or operator
	ID      string               `json:"id"`   // of the holder
	Space   protocol.SpaceID     `json:"space"`
	Skill   protocol.SkillID     `json:"skill,omitempty"`
	Roles   []string             `json:"roles,omitempty"`  // sorted
	Scenes  []protocol.SceneType `json:"scenes,omitempty"` // sorted; * is every type
	Purpose string               `json:"purpose,omitempty"`
}

const (
	scopeVersion = 1
	maxScope     = 8 << 10 // bytes of the extension
	maxRoles     = 16
	maxRole      = 32 // characters of a role
	maxScenes    = 64
	maxPurpose   = 256 // characters

	anyScene protocol.SceneType = "*"
)

// The roles of a scope that mean an agent which hands out work. The source
// calls it agent_route, as a role of a scene; as a principal it is a
// route_agent.
const (
	RoleAgentRoute  = "agent_route"
	roleEnrolment   = "enrolment"
	officerPrefix   = "officer:"
	officerAttrName = "officer"
)

// scopeOID identifies the extension. The arc 1.2.840.113556.1.8000.2554 is
// meant for identifiers made from a GUID, which needs no registration; ours is
// that of this project.
func scopeOID() asn1.ObjectIdentifier {
	return asn1.ObjectIdentifier{1, 2, 840, 113556, 1, 8000, 2554, 41623, 6402, 58711, 19310, 45320, 11467530, 5702867, 1}
}

// extension is the scope as it stands in a certificate: canonical JSON in a
// UTF8String. It is not critical: others that trust our root may take the
// certificate for a plain identity; the bridge insists on it.
func (s *Scope) extension() (pkix.Extension, error) {
	text, err := json.Marshal(s)
	if err != nil {
		return pkix.Extension{}, err
	}
	value, err := asn1.MarshalWithParams(string(text), "utf8")
	return pkix.Extension{Id: scopeOID(), Value: value}, err
}

// scopeOf reads the scope of a certificate.
func scopeOf(cert *x509.Certificate) (*Scope, error) {
	var found *pkix.Extension
	for i := range cert.Extensions {
		if !cert.Extensions[i].Id.Equal(scopeOID()) {
			continue
		}
		if found != nil {
			return nil, errors.New("two scopes")
		}
		found = &cert.Extensions[i]
	}
	if found == nil {
		return nil, errors.New("no scope")
	}
	s, err := parseScope(found.Value)
	if err != nil {
		return nil, err
	}
	if cert.Subject.CommonName != s.ID || !slices.EqualFunc(cert.URIs, s.uris(), func(a, b *url.URL) bool { return a.String() == b.String() }) {
		return nil, errors.New("the scope and the names are of different holders")
	}
	return s, nil
}

// parseScope reads the value of the extension. There is one way to write a
// scope; anything else is an error.
func parseScope(value []byte) (*Scope, error) {
	if len(value) > maxScope {
		return nil, errors.New("the scope is too long")
	}
	input, text := cryptobyte.String(value), cryptobyte.String(nil)
	if !input.ReadASN1(&text, cryptobyteasn1.UTF8String) || !input.Empty() {
		return nil, errors.New("the scope is not a UTF8String")
	}
	s := new(Scope)
	if err := json.Unmarshal(text, s); err != nil {
		return nil, fmt.Errorf("the scope is not readable: %w", err)
	}
	again, err := json.Marshal(s)
	if err != nil || !bytes.Equal(again, text) {
		return nil, errors.New("the scope is not written as it must be")
	}
	return s, s.check()
}

// check fails for a scope that is refused.
func (s *Scope) check() error {
	if s.Version != scopeVersion {
		return fmt.Errorf("scope version %d is not known", s.Version)
	}
	holder, ok := map[protocol.Kind]protocol.Identifier{
		protocol.KindAgent: protocol.AgentID(""), protocol.KindSkill: protocol.SkillID(""), protocol.KindOperator: protocol.AgentID(""),
	}[s.Kind]
	if !ok {
		return fmt.Errorf("holders of kind %q have no certificates", s.Kind)
	}
	for _, id := range []struct {
		what protocol.Identifier
		text string
		must bool
	}{
		{holder, s.ID, true}, {s.Space, string(s.Space), true}, {s.Skill, string(s.Skill), false},
	} {
		if reason := id.what.Rule().Check(id.text); reason != "" && (id.must || id.text != "") {
			return fmt.Errorf("%s %s", id.what.Rule().What, reason)
		}
	}
	if len(s.Roles) > maxRoles || len(s.Scenes) > maxScenes || utf8.RuneCountInString(s.Purpose) > maxPurpose {
		return errors.New("the scope has too many roles or scene types, or says too much about its purpose")
	}
	for _, r := range s.Roles {
		if reason := (protocol.Rule{Min: 1, Max: maxRole, Name: true}).Check(r); reason != "" {
			return fmt.Errorf("role %q %s", r, reason)
		}
	}
	for _, t := range s.Scenes {
		if reason := t.Rule().Check(string(t)); reason != "" {
			return fmt.Errorf("scene type %q %s", t, reason)
		}
	}
	if !sortedSet(s.Roles) || !sortedSet(s.Scenes) {
		return errors.New("roles and scene types must be sorted, each once")
	}
	return nil
}

func sortedSet[T ~string](list []T) bool {
	for i := 1; i < len(list); i++ {
		if list[i-1] >= list[i] {
			return false
		}
	}
	return true
}

// uris are the names of the holder: aibridge:agent/x, and aibridge:skill/y if
// it has a skill of another name.
func (s *Scope) uris() []*url.URL {
	uris := []*url.URL{nameURI(s.Kind, s.ID)}
	if s.Skill != "" && s.Kind != protocol.KindSkill {
		uris = append(uris, nameURI(protocol.KindSkill, string(s.Skill)))
	}
	return uris
}

func nameURI(kind protocol.Kind, id string) *url.URL {
	return &url.URL{Scheme: "aibridge", Opaque: string(kind) + "/" + url.PathEscape(id)}
}

// covers reports whether the scope allows a role, "" for none in particular.
func (s *Scope) coversRole(role string) bool {
	if role == "" {
		return true
	}
	return slices.Contains(s.Roles, role) || routes(role) && slices.ContainsFunc(s.Roles, routes)
}

// coversScene reports whether the scope allows a scene type, "" for none in
// particular.
func (s *Scope) coversScene(t protocol.SceneType) bool {
	return t == "" || slices.Contains(s.Scenes, t) || slices.Contains(s.Scenes, anyScene)
}

// routes reports whether a role makes a route agent, by either name.
func routes(role string) bool { return role == RoleAgentRoute || role == protocol.RoleRouteAgent }

// privileged reports whether only an administrator may grant a role: it means
// something to the bridge itself, beyond one skill.
func privileged(role string) bool {
	switch role {
	case protocol.RoleAdministrator, protocol.RoleOperator, protocol.RoleAnonymous:
		return true
	}
	return strings.HasPrefix(role, officerPrefix)
}

// meaningful are the roles that a certificate gives beyond its scenes. Scenes
// have roles of their own making.
var meaningful = []string{
	RoleAgentRoute, protocol.RoleRouteAgent, protocol.RoleObserver, protocol.RoleOperator, protocol.RoleAdministrator,
	officerPrefix + string(Operator), officerPrefix + string(AppStore), officerPrefix + string(Enterprise),
}

// checkRoles refuses roles that look like misspelt meaningful ones: such a
// certificate would give less than its requester expects.
func (s *Scope) checkRoles() error {
	for _, role := range s.Roles {
		if slices.Contains(meaningful, role) {
			continue
		}
		if meant, ok := schema.Nearest(role, slices.Values(meaningful)); ok || strings.HasPrefix(role, officerPrefix) {
			err := protocol.InvalidParam("roles", fmt.Sprintf("there is no role %q: did you mean %q?", role, meant))
			return err.With("did_you_mean", meant)
		}
	}
	return nil
}

// principalRoles are the roles that the bridge gives a holder. Roles of scenes
// mean nothing outside of them.
func (s *Scope) principalRoles() []string {
	var roles []string
	switch s.Kind {
	case protocol.KindAgent:
		roles = append(roles, protocol.RoleEndAgent)
		if slices.ContainsFunc(s.Roles, routes) {
			roles[0] = protocol.RoleRouteAgent
		}
	case protocol.KindSkill:
		roles = append(roles, protocol.RoleSkill)
	}
	for _, r := range s.Roles {
		if privileged(r) && r != protocol.RoleAnonymous || r == protocol.RoleObserver {
			roles = append(roles, r)
		}
	}
	return roles
}

// principal returns the holder of a certificate of this scope.
func (s *Scope) principal(c *Certificate, cert *x509.Certificate) *protocol.Principal {
	attributes := map[string]string{"authority": string(c.Authority)}
	if s.Skill != "" {
		attributes["skill_id"] = string(s.Skill)
	}
	return &protocol.Principal{
		Kind:       s.Kind,
		ID:         s.ID,
		Space:      s.Space,
		Roles:      s.principalRoles(),
		Attributes: attributes,
		Credential: string(c.Serial),
		Method:     protocol.MethodCertificate,
		Expires:    cert.NotAfter,
		CertSerial: c.Serial,
	}
}
