package engine

import "github.com/aibridge/aibridge/broker"

// The vocabulary of package broker.
type (
	Message      = broker.Message
	UserProperty = broker.UserProperty
	Client       = broker.Client
	Publication  = broker.Publication
	Credentials  = broker.Credentials
	Verdict      = broker.Verdict
	Permissions  = broker.Permissions
	Presence     = broker.Presence
)
