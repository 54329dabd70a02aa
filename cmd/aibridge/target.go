package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/aibridge/aibridge/client"
	"github.com/aibridge/aibridge/internal/app"
	"github.com/aibridge/aibridge/internal/listen"
	"github.com/aibridge/aibridge/protocol"
)

// A target is the bridge that a command talks to, and the credential for it.
type target struct {
	url, data, ca    string
	root             string // "" to ask the bridge
	cert, certKey    string
	keyFile          string
	token, tokenFile string
	oldKeyFile       string // --key-file, the old name of --api-key-file

	mqtt string // the address of MQTT, once another door has told it
}

func (t *target) addFlags(fs *pflag.FlagSet) {
	t.addAddressFlag(fs)
	fs.StringVar(&t.data, "data", "", "data folder of a bridge on this machine, to find its addresses, key and CA in (AIBRIDGE_DATA)")
	fs.StringVar(&t.root, "root", os.Getenv("AIBRIDGE_ROOT"), "first level of the bridge's topics, which it tells by itself (AIBRIDGE_ROOT)")
	t.addCredentialFlags(fs)
}

// addAddressFlag declares the flag that says where the bridge is.
func (t *target) addAddressFlag(fs *pflag.FlagSet) {
	fs.StringVar(&t.url, "url", os.Getenv("AIBRIDGE_URL"), "address of the bridge, of any of its doors: mqtt://host:port, mqtts://, ws://, wss://, http:// or https:// (AIBRIDGE_URL)")
}

// addCredentialFlags declares the flags of the credential and of the trusted
// authorities.
func (t *target) addCredentialFlags(fs *pflag.FlagSet) {
	fs.StringVar(&t.ca, "ca", os.Getenv("AIBRIDGE_CA"), "PEM file with the roots that the bridge's certificate must chain to (AIBRIDGE_CA; otherwise the system's, and DATA/"+app.CAFile+")")
	fs.StringVar(&t.cert, "cert", os.Getenv("AIBRIDGE_CERT"), "PEM file with the client certificate to show (AIBRIDGE_CERT)")
	fs.StringVar(&t.certKey, "key", os.Getenv("AIBRIDGE_KEY"), "PEM file with the key of the client certificate (AIBRIDGE_KEY)")
	fs.StringVar(&t.token, "token", "", "JSON Web Token to show; others on this machine may see it, unlike --token-file (AIBRIDGE_TOKEN)")
	fs.StringVar(&t.tokenFile, "token-file", "", "file with the token to show, read again before it expires")
	fs.StringVar(&t.keyFile, "api-key-file", "", "file with the API key to show (otherwise AIBRIDGE_API_KEY; then, to the bridge of this machine, DATA/"+app.AdminKeyFile+")")
	fs.StringVar(&t.oldKeyFile, "key-file", "", "the same")
	_ = fs.MarkHidden("key-file")
}

func (t *target) folder() string {
	switch {
	case t.data != "":
		return t.data
	case os.Getenv("AIBRIDGE_DATA") != "":
		return os.Getenv("AIBRIDGE_DATA")
	}
	return app.DefaultConfig().Data
}

// addresses are the addresses of the bridge on this machine, or the default ones.
func (t *target) addresses() listen.Addresses {
	if a, err := listen.ReadAddresses(t.folder()); err == nil {
		return a
	}
	c := app.DefaultConfig()
	return listen.Addresses{MQTT: c.MQTT.Address, MQTTS: "127.0.0.1:8883", HTTP: c.HTTP, WS: c.WS}
}

// mqttURL is the address of the bridge. A client certificate needs TLS.
func (t *target) mqttURL() string {
	switch {
	case t.mqtt != "":
		return t.mqtt
	case t.url != "":
		return webSocketPath(t.url)
	}
	a := t.addresses()
	if a.MQTTS != "" && (a.MQTT == "" || t.cert != "") {
		return "mqtts://" + a.MQTTS
	}
	return "mqtt://" + a.MQTT
}

// webSocketPath adds the path of MQTT to the address of a WebSocket listener
// that has none.
func webSocketPath(address string) string {
	scheme, rest, _ := strings.Cut(address, "://")
	if (scheme == "ws" || scheme == "wss") && !strings.ContainsAny(rest, "/?#") {
		return address + "/mqtt"
	}
	return address
}

// credential returns the credential to show besides a certificate: the flag's, else
// what a variable holds, else the administrator's key of a bridge on this
// machine.
func (t *target) credential() (client.Option, error) {
	if t.keyFile == "" {
		t.keyFile = t.oldKeyFile
	}
	given := 0
	for _, flag := range []string{t.token, t.tokenFile, t.keyFile} {
		if flag != "" {
			given++
		}
	}
	switch {
	case given > 1:
		return nil, usageError{errors.New("only one of --token, --token-file and --api-key-file can be shown")}
	case t.token != "":
		return client.WithToken(client.StaticToken(t.token)), nil
	case t.tokenFile != "":
		if _, err := readSecret(t.tokenFile); err != nil {
			return nil, err
		}
		return client.WithToken(func(context.Context) (string, error) { return readSecret(t.tokenFile) }), nil
	case t.keyFile != "":
		key, err := readSecret(t.keyFile)
		return client.WithAPIKey(key), err
	case os.Getenv("AIBRIDGE_TOKEN") != "":
		return client.WithToken(client.StaticToken(os.Getenv("AIBRIDGE_TOKEN"))), nil
	case os.Getenv("AIBRIDGE_API_KEY") != "":
		return client.WithAPIKey(os.Getenv("AIBRIDGE_API_KEY")), nil
	case t.cert != "":
		return nil, nil
	}
	if !t.ownBridge() {
		return nil, nil
	}
	key, err := readSecret(filepath.Join(t.folder(), app.AdminKeyFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil // a bridge under --dev asks for none
	}
	return client.WithAPIKey(key), err
}

// ownBridge reports whether the address is that of the bridge whose data folder
// is used: no other may be shown its administrator's key. A user who gives both
// --url and --data says that they belong together.
func (t *target) ownBridge() bool {
	if t.url == "" || t.data != "" {
		return true
	}
	u, err := url.Parse(t.url)
	if err != nil {
		return false
	}
	host := u.Hostname()
	if addr, err := netip.ParseAddr(host); host == "localhost" || err == nil && addr.Unmap().IsLoopback() {
		return true
	}
	a, err := listen.ReadAddresses(t.folder())
	return err == nil && slices.Contains([]string{a.MQTT, a.MQTTS, a.HTTP, a.WS}, u.Host)
}

func readSecret(path string) (string, error) {
	data, err := os.ReadFile(path)
	return strings.TrimSpace(string(data)), err
}

// tlsConfig is the configuration of TLS.
func (t *target) tlsConfig() (*tls.Config, error) {
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	switch {
	case t.ca != "":
		roots, err := addRoots(x509.NewCertPool(), t.ca)
		if err != nil {
			return nil, err
		}
		config.RootCAs = roots
	default:
		system, err := x509.SystemCertPool()
		if err != nil {
			system = x509.NewCertPool()
		}
		roots, err := addRoots(system, filepath.Join(t.folder(), app.CAFile))
		if err == nil { // there need not be a bridge on this machine
			config.RootCAs = roots
		}
	}
	switch {
	case (t.cert == "") != (t.certKey == ""):
		return nil, usageError{errors.New("--cert and --key go together")}
	case t.cert != "":
		pair, err := tls.LoadX509KeyPair(t.cert, t.certKey)
		if err != nil {
			return nil, err
		}
		config.Certificates = []tls.Certificate{pair}
	}
	return config, nil
}

func addRoots(pool *x509.CertPool, path string) (*x509.CertPool, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	if !pool.AppendCertsFromPEM(data) {
		return nil, fmt.Errorf("%s holds no certificate", path)
	}
	return pool, nil
}

// dialTimeout is the time that a bridge may take to let a person in: longer than a
// busy one stalls, and short enough for a person to wait.
const dialTimeout = 20 * time.Second

// dial connects, giving up when [dialTimeout] has passed.
func (t *target) dial(ctx context.Context, opts ...client.Option) (*client.Client, error) {
	credential, err := t.credential()
	if err != nil {
		return nil, err
	}
	if credential != nil {
		opts = append(opts, credential)
	}
	config, err := t.tlsConfig()
	if err != nil {
		return nil, err
	}
	opts = append(opts, client.WithTLS(config), client.WithRoot(t.root))
	if err := t.checkFolder(); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	if err := t.findMQTT(ctx); err != nil {
		return nil, err
	}
	c, err := client.Dial(ctx, t.mqttURL(), opts...)
	if err != nil {
		return nil, t.explain(err)
	}
	return c, nil
}

// checkFolder refuses a data folder that was named and that no bridge has used:
// the default addresses would lead to another bridge.
func (t *target) checkFolder() error {
	named := t.data != "" || os.Getenv("AIBRIDGE_DATA") != ""
	if !named || t.url != "" {
		return nil
	}
	if _, err := listen.ReadAddresses(t.folder()); errors.Is(err, fs.ErrNotExist) {
		return hinted{fmt.Errorf("no bridge has been started with the data folder %s", t.folder()),
			"name the folder of one with --data, or its address with --url"}
	}
	return nil
}

// explain adds a hint to the error of a connection that could not be made.
func (t *target) explain(err error) error {
	at := t.mqttURL()
	wrapped := fmt.Errorf("connect to %s: %w", at, err)
	switch protocol.CodeOf(err) {
	case protocol.InvalidParameter:
		if coded := protocol.AsError(err); coded.Details["param_name"] == "address" {
			return usageError{fmt.Errorf("--url: %v", coded.Details["reason"])}
		}
	case protocol.TargetUnavailable:
		return hinted{wrapped, "is a bridge running there? aibridge serve --dev starts one; --url or --data lead to another"}
	case protocol.NotAuthenticated, protocol.CredentialInvalid:
		return hinted{wrapped, "show a credential: --api-key-file, --token-file or --cert; on the bridge's own machine --data finds the administrator's key"}
	}
	return wrapped
}
