package config

import (
	"github.com/aibridge/aibridge/doors/files/s3"
	"github.com/aibridge/aibridge/doors/files/webdav"
	natsdoor "github.com/aibridge/aibridge/doors/nats"
)

// Doors are the doors that are shut until they are configured.
type Doors struct {
	NATS   natsdoor.Settings `yaml:"nats"`
	WebDAV webdav.Settings   `yaml:"webdav"`
	S3     s3.Settings       `yaml:"s3"`
}
