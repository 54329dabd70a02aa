package site

import (
	"context"
	"strings"
	"testing"

	"github.com/aibridge/aibridge/protocol"
)

// TestAKeyThatIsNotOfTheSiteIsNamed: it is easily taken for the one at the centre.
func TestAKeyThatIsNotOfTheSiteIsNamed(t *testing.T) {
	t.Parallel()
	s := siteOf(router{})
	s.Authenticate = func(context.Context, string) (*protocol.Principal, error) {
		return nil, protocol.Errorf(protocol.CredentialInvalid, "the credential is not valid")
	}
	_, err := s.principal(t.Context())
	if protocol.CodeOf(err) != protocol.CredentialInvalid || !strings.Contains(err.Error(), "sites.join.principal") {
		t.Errorf("the error is %v", err)
	}
}
