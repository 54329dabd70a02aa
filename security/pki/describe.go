package pki

import (
	"crypto/x509"
	"encoding/pem"
	"errors"
	"time"

	"github.com/aibridge/aibridge/protocol"
)

// A Description is a certificate's content in words, from any issuer.
type Description struct {
	Serial    protocol.Serial      `json:"serial"`
	Issuer    string               `json:"issuer"`
	Kind      protocol.Kind        `json:"kind"`
	Principal string               `json:"principal"`
	Space     protocol.SpaceID     `json:"space_id"`
	Skill     protocol.SkillID     `json:"skill_id,omitempty"`
	Roles     []string             `json:"roles,omitempty"`
	Scenes    []protocol.SceneType `json:"scene_types,omitempty"`
	Purpose   string               `json:"purpose,omitempty"`
	ValidFrom string               `json:"valid_from"`
	ExpiresAt string               `json:"expires_at"`
}

// Describe reads the first certificate of a text in PEM.
func Describe(text []byte) (*Description, error) {
	block, _ := pem.Decode(text)
	if block == nil || block.Type != "CERTIFICATE" {
		return nil, errors.New("holds no certificate in PEM")
	}
	cert, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		return nil, err
	}
	scope, err := scopeOf(cert)
	if err != nil {
		return nil, err
	}
	serial, ok := serialOf(cert.SerialNumber)
	if !ok {
		return nil, errors.New("its serial does not have 16 digits")
	}
	return &Description{
		Serial: serial, Issuer: cert.Issuer.CommonName, Kind: scope.Kind, Principal: scope.ID, Space: scope.Space, Skill: scope.Skill,
		Roles: scope.Roles, Scenes: scope.Scenes, Purpose: scope.Purpose,
		ValidFrom: cert.NotBefore.Local().Format(time.DateTime), ExpiresAt: cert.NotAfter.Local().Format(time.DateTime),
	}, nil
}
