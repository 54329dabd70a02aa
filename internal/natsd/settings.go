package natsd

// Settings hold the address of an external NATS for the state.
type Settings struct {
	URL         string `yaml:"url" doc:"NATS servers to keep the state in, instead of the embedded one"`
	Credentials string `yaml:"credentials" doc:"file with NATS user credentials"`
	CA          string `yaml:"ca" doc:"PEM file with the roots of the NATS servers' certificates, instead of the system's"`
	Cert        string `yaml:"cert" doc:"PEM file with a client certificate for NATS"`
	Key         string `yaml:"key" doc:"PEM file with the client certificate's key"`
	Replicas    int    `yaml:"replicas" doc:"copies of every stream on a NATS cluster"`
}

// Check passes the faults of the settings to fail.
func (n *Settings) Check(fail func(format string, args ...any)) {
	if n.URL == "" && (n.Replicas > 1 || n.Credentials != "" || n.CA != "" || n.Cert != "") {
		fail("nats.url: is needed by the other settings of nats; the embedded server has no copies and no doors")
	}
	if (n.Cert == "") != (n.Key == "") {
		fail("nats: cert and key go together")
	}
}

// External reports whether the state is in a NATS of its own, which other
// bridges reach too.
func (n *Settings) External() bool { return n.URL != "" }

// Open reaches the NATS that holds the state: that of the settings, by the name
// of the bridge, or the one in the folder, with the options o.
func (n *Settings) Open(name string, o Options) (*Server, error) {
	if !n.External() {
		return Start(o)
	}
	return Connect(ExternalOptions{
		URL:         n.URL,
		Name:        name,
		Credentials: n.Credentials,
		CA:          n.CA,
		Cert:        n.Cert,
		Key:         n.Key,
		Log:         o.Log,
	})
}
