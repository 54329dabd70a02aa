package app

import (
	"github.com/aibridge/aibridge/internal/authz"
	"github.com/aibridge/aibridge/registry/doctor"
	"github.com/aibridge/aibridge/registry/doctor/witness"
)

// newDoctor makes the doctor of devices, and the witness that reports refusals to it.
func newDoctor(s *state, d *domains, parties authz.Parties) *doctor.Service {
	service := doctor.New(doctor.Options{
		Agents:  d.agents,
		Clients: witness.Clients{MQTT: s.clients},
		Credentials: witness.Credentials{
			Keys: d.identities.keys, Certificates: d.identities.pki, Passwords: d.identities.passwords, Party: parties.Principal,
		},
		Rights:   witness.Rights{Authorizer: s.authorizer, Topics: d.rights},
		Quotas:   witness.Quotas{Keeper: s.quotas},
		Publish:  s.clients.Publish,
		Topics:   s.topics,
		BridgeID: s.config.ID,
		Log:      s.log,
	})
	s.promised.witness.keep(&witness.Witness{Doctor: service, Holder: d.identities.pki.IssuedTo, Issued: d.identities.pki.SerialOf})
	s.life.Run("doctor of devices", service.Run)
	return service
}
