package main

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/aibridge/aibridge/protocol"
)

// The files of a certificate in its folder.
const (
	certFile = "cert.pem" // the certificate and its authority's
	keyFile  = "key.pem"  // for its owner's eyes only
	caFile   = "ca.pem"   // the root, to trust the bridge by
)

// A wanted certificate, as flags say it.
type wanted struct {
	authority, skill, agent, operator, purpose, space string
	roles, scenes                                     []string
	validity                                          time.Duration
}

func (w *wanted) addFlags(cmd *cobra.Command) {
	fs := cmd.Flags()
	fs.StringVar(&w.authority, "authority", "", "who grants it: operator, appstore or enterprise")
	fs.StringVar(&w.skill, "skill", "", "the skill it is for")
	fs.StringVar(&w.agent, "agent", "", "the agent that holds it, if not one named after the skill")
	fs.StringVar(&w.operator, "operator", "", "the person or tool that holds it, instead of a skill or agent")
	fs.StringSliceVar(&w.roles, "role", nil, "role it may take, agent_route for route agents; several times for several")
	fs.StringSliceVar(&w.scenes, "scene", nil, "type of scenes it may declare and join, * for all; several times for several")
	fs.StringVar(&w.purpose, "purpose", "", "what it is for, in words")
	fs.StringVar(&w.space, "space", "", "the space it is good in; your own by default")
	fs.DurationVar(&w.validity, "validity", 0, "how long it lasts, such as 2160h; 90 days by default")
}

func (w *wanted) params() (map[string]any, error) {
	params := map[string]any{}
	for name, value := range map[string]string{
		"authority": w.authority, "skill_id": w.skill, "agent_id": w.agent, "operator_id": w.operator, "purpose": w.purpose, "space_id": w.space,
	} {
		optional(params, name, value)
	}
	if len(w.roles) > 0 {
		params["roles"] = w.roles
	}
	if len(w.scenes) > 0 {
		params["scene_types"] = w.scenes
	}
	if w.validity != 0 {
		if w.validity < time.Second {
			return nil, usageError{fmt.Errorf("--validity %s is too short", w.validity)}
		}
		params["validity_seconds"] = int(w.validity / time.Second)
	}
	return params, nil
}

// name is what the signing request calls the holder.
func (w *wanted) name() string {
	for _, name := range []string{w.operator, w.agent, w.skill} {
		if name != "" {
			return name
		}
	}
	return ""
}

// A keyMaker makes a key in a folder and the request to sign it.
type keyMaker struct{ out, kind string }

func (k *keyMaker) addFlags(cmd *cobra.Command, what string) {
	cmd.Flags().StringVar(&k.out, "out", "", "folder for "+what)
	cmd.Flags().StringVar(&k.kind, "key-type", "ecdsa", "key to make: ecdsa (P-256) or ed25519")
}

// make makes a key in the folder, where none may be yet.
func (k *keyMaker) make() (crypto.Signer, error) {
	if k.out == "" {
		return nil, usageError{errors.New("--out is needed: a folder for the key")}
	}
	var key crypto.Signer
	var err error
	switch k.kind {
	case "ecdsa":
		key, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	case "ed25519":
		_, key, err = ed25519.GenerateKey(rand.Reader)
	default:
		return nil, usageError{fmt.Errorf("--key-type %s is neither ecdsa nor ed25519", k.kind)}
	}
	if err != nil {
		return nil, err
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(k.out, 0o700); err != nil {
		return nil, err
	}
	f, err := os.OpenFile(filepath.Join(k.out, keyFile), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return nil, fmt.Errorf("%s holds a key already; choose another folder", k.out)
	}
	if err != nil {
		return nil, err
	}
	err = pem.Encode(f, &pem.Block{Type: "PRIVATE KEY", Bytes: der})
	return key, errors.Join(err, f.Sync(), f.Close())
}

// discard removes a key that got no certificate.
func (k *keyMaker) discard() { _ = os.Remove(filepath.Join(k.out, keyFile)) }

func signingRequest(key crypto.Signer, name string) (string, error) {
	template := &x509.CertificateRequest{}
	if name != "" {
		template.Subject = pkix.Name{CommonName: name}
	}
	der, err := x509.CreateCertificateRequest(rand.Reader, template, key)
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der})), err
}

// An issuedCertificate is what the bridge answers.
type issuedCertificate struct {
	RequestID string          `json:"request_id"`
	Serial    protocol.Serial `json:"serial"`
	Chain     []string        `json:"chain"`
	ExpiresAt int64           `json:"expires_at"`
}

// check makes sure that what came back is for the key it was asked for.
func (i *issuedCertificate) check(key crypto.Signer) error {
	if len(i.Chain) != 3 {
		return fmt.Errorf("the bridge answered with a chain of %d certificates", len(i.Chain))
	}
	block, _ := pem.Decode([]byte(i.Chain[0]))
	if block == nil {
		return errors.New("the bridge answered with something that is no certificate")
	}
	cert, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		return err
	}
	public, ok := key.Public().(interface{ Equal(crypto.PublicKey) bool })
	if !ok || !public.Equal(cert.PublicKey) {
		return errors.New("the bridge answered with a certificate for another key")
	}
	return nil
}

// write puts the certificate and the root into a folder.
func (i *issuedCertificate) write(dir string) error {
	chain := strings.Join(i.Chain[:len(i.Chain)-1], "")
	return errors.Join(
		os.WriteFile(filepath.Join(dir, certFile), []byte(chain), 0o644),                 //nolint:gosec // certificates are no secrets
		os.WriteFile(filepath.Join(dir, caFile), []byte(i.Chain[len(i.Chain)-1]), 0o644), //nolint:gosec // the same
	)
}

// finish checks and writes what was issued, prints the serial, and says the
// rest on the side.
func (i *issuedCertificate) finish(cmd *cobra.Command, dir string, key crypto.Signer) error {
	if err := i.check(key); err != nil {
		return err
	}
	if err := i.write(dir); err != nil {
		return err
	}
	fmt.Fprintf(cmd.ErrOrStderr(), "wrote %s, %s and %s to %s, good until %s\n", certFile, keyFile, caFile, dir,
		time.UnixMilli(i.ExpiresAt).Format(time.DateTime))
	_, err := fmt.Fprintln(cmd.OutOrStdout(), i.Serial)
	return err
}

func certIssueCommand() *cobra.Command {
	var c certs
	var w wanted
	var k keyMaker
	var request string
	cmd := &cobra.Command{
		Use:   "issue --authority AUTHORITY --skill SKILL --out DIR | --request REQUEST_ID --out DIR",
		Short: "Make a key and have it certified at once, as an officer; or fetch what was approved",
		Example: `  aibridge cert issue --authority operator --skill lighting --role agent_route --scene SMART_HOME --out lighting
  aibridge cert issue --request 6e0f0a5e-58a1-4b7b-9c7c-1f2d3c4b5a69 --out lighting`,
		Args: exactArgs(0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if request != "" {
				return fetchRequested(cmd, &c, k.out, request)
			}
			params, err := w.params()
			if err != nil {
				return err
			}
			return certify(cmd, &c, &k, "cert.issue", params, w.name())
		},
	}
	c.addFlags(cmd)
	w.addFlags(cmd)
	k.addFlags(cmd, "key.pem, cert.pem and ca.pem")
	cmd.Flags().StringVar(&request, "request", "", "id of an approved request, whose key is in the folder")
	return cmd
}

// certify makes a key, has it certified and keeps it only if that worked.
func certify(cmd *cobra.Command, c *certs, k *keyMaker, command string, params map[string]any, name string) (err error) {
	key, err := k.make()
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			k.discard()
		}
	}()
	if params["csr"], err = signingRequest(key, name); err != nil {
		return err
	}
	result, err := c.call(cmd.Context(), command, params)
	if err != nil {
		return err
	}
	var issued issuedCertificate
	if err := json.Unmarshal(result, &issued); err != nil {
		return err
	}
	return issued.finish(cmd, k.out, key)
}

// fetchRequested has an approved request issued, for the key in a folder.
func fetchRequested(cmd *cobra.Command, c *certs, dir, request string) error {
	key, err := readKey(dir)
	if err != nil {
		return err
	}
	result, err := c.call(cmd.Context(), "cert.issue", map[string]any{"request_id": request})
	if coded := new(protocol.Error); errors.As(err, &coded) && coded.Code == protocol.InvalidState && coded.Details["serial"] != nil {
		result, err = c.call(cmd.Context(), "cert.get", map[string]any{"request_id": request}) // issued before, but not fetched
	}
	if err != nil {
		return err
	}
	var issued issuedCertificate
	if err := json.Unmarshal(result, &issued); err != nil {
		return err
	}
	if issued.ExpiresAt == 0 {
		var shown struct {
			Certificate struct {
				ExpiresAt int64 `json:"expires_at"`
			} `json:"certificate"`
		}
		_ = json.Unmarshal(result, &shown)
		issued.ExpiresAt = shown.Certificate.ExpiresAt
	}
	return issued.finish(cmd, dir, key)
}

func readKey(dir string) (crypto.Signer, error) {
	if dir == "" {
		return nil, usageError{errors.New("--out is needed: the folder with the key")}
	}
	text, err := os.ReadFile(filepath.Join(dir, keyFile))
	if err != nil {
		return nil, err
	}
	block, _ := pem.Decode(text)
	if block == nil {
		return nil, fmt.Errorf("%s holds no key in PEM", filepath.Join(dir, keyFile))
	}
	parsed, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		return nil, err
	}
	key, ok := parsed.(crypto.Signer)
	if !ok {
		return nil, fmt.Errorf("the key in %s cannot sign", dir)
	}
	return key, nil
}

func certRequestCommand() *cobra.Command {
	var c certs
	var w wanted
	var k keyMaker
	cmd := &cobra.Command{
		Use:   "request --authority AUTHORITY --skill SKILL --out DIR",
		Short: "Make a key and ask an authority to certify it",
		Long: `Make a key and ask an authority to certify it. When an officer has approved the
request, cert issue --request fetches the certificate into the same folder.`,
		Args: exactArgs(0),
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			params, err := w.params()
			if err != nil {
				return err
			}
			key, err := k.make()
			if err != nil {
				return err
			}
			defer func() {
				if err != nil {
					k.discard()
				}
			}()
			if params["csr"], err = signingRequest(key, w.name()); err != nil {
				return err
			}
			result, err := c.call(cmd.Context(), "cert.request", params)
			if err != nil {
				return err
			}
			var asked issuedCertificate
			if err := json.Unmarshal(result, &asked); err != nil {
				return err
			}
			fmt.Fprintf(cmd.ErrOrStderr(), "an officer of %s has to approve the request; then: aibridge cert issue --request %s --out %s\n",
				w.authority, asked.RequestID, k.out)
			_, err = fmt.Fprintln(cmd.OutOrStdout(), asked.RequestID)
			return err
		},
	}
	c.addFlags(cmd)
	w.addFlags(cmd)
	k.addFlags(cmd, "key.pem, and later cert.pem and ca.pem")
	return cmd
}

func certRenewCommand() *cobra.Command {
	var c certs
	var k keyMaker
	var validity time.Duration
	cmd := &cobra.Command{
		Use:   "renew SERIAL|DIR --out NEW_DIR",
		Short: "Have a certificate issued anew, with another key and serial; the old one stays good until it ends",
		Example: `  aibridge cert renew 8a1b2c3d4e5f6a7b --out lighting-2                        # as an officer
  aibridge cert renew lighting --out lighting-2                                # as its holder, on this machine
  aibridge cert renew lighting --out lighting-2 --url mqtts://127.0.0.1:8883   # elsewhere`,
		Args: exactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			params := map[string]any{}
			if _, err := protocol.ParseSerial(args[0]); err == nil {
				params["serial"] = args[0]
			} else if err := c.target.asHolder(args[0]); err != nil {
				return err
			}
			if validity >= time.Second {
				params["validity_seconds"] = int(validity / time.Second)
			}
			return certify(cmd, &c, &k, "cert.renew", params, "")
		},
	}
	c.addFlags(cmd)
	k.addFlags(cmd, "the new key.pem, cert.pem and ca.pem")
	cmd.Flags().DurationVar(&validity, "validity", 0, "how long the new one lasts; as long as the old one by default")
	return cmd
}

// asHolder shows the certificate in a folder, which proves its key, and trusts
// the root beside it.
func (t *target) asHolder(dir string) error {
	if t.cert != "" || t.certKey != "" {
		return usageError{fmt.Errorf("the certificate to show is that in %s: leave out --cert and --key", dir)}
	}
	t.cert, t.certKey = filepath.Join(dir, certFile), filepath.Join(dir, keyFile)
	if t.ca == "" {
		t.ca = filepath.Join(dir, caFile)
	}
	if url := t.mqttURL(); !strings.HasPrefix(url, "mqtts://") && !strings.HasPrefix(url, "wss://") && !strings.HasPrefix(url, "https://") {
		return usageError{errors.New("the key is proved over TLS: name the address with --url, such as mqtts://host:port")}
	}
	return nil
}

func certTokenCommand() *cobra.Command {
	var c certs
	var w wanted
	var ttl time.Duration
	cmd := &cobra.Command{
		Use:   "token --authority AUTHORITY --skill SKILL",
		Short: "Make a claim token, with which a device gets one certificate by itself",
		Args:  exactArgs(0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			params, err := w.params()
			if err != nil {
				return err
			}
			params["ttl_seconds"] = int(ttl / time.Second)
			return c.show(cmd, "cert.token.create", params)
		},
	}
	c.addFlags(cmd)
	w.addFlags(cmd)
	cmd.Flags().DurationVar(&ttl, "ttl", 24*time.Hour, "how long it can be claimed")
	return cmd
}

// maxAnswer bounds what is read of a bridge's answer over HTTP, in bytes.
const maxAnswer = 1 << 20

func certClaimCommand() *cobra.Command {
	var k keyMaker
	var t target
	cmd := &cobra.Command{
		Use:   "claim TOKEN --out DIR",
		Short: "Make a key and claim its certificate with a token, as a device that has nothing else",
		Long: `Make a key and claim its certificate with a token, as a device that has nothing
else: from the bridge on this machine, or at --url. A bridge that lets in nobody without
a credential needs the address of its HTTP door there.`,
		Example: `  aibridge cert claim abt_… --url https://bridge.example:9010 --ca ca.pem --out lighting`,
		Args:    exactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			key, err := k.make()
			if err != nil {
				return err
			}
			defer func() {
				if err != nil {
					k.discard()
				}
			}()
			csr, err := signingRequest(key, "")
			if err != nil {
				return err
			}
			issued, err := claim(cmd, &t, args[0], csr)
			if err != nil {
				return err
			}
			return issued.finish(cmd, k.out, key)
		},
	}
	k.addFlags(cmd, "key.pem, cert.pem and ca.pem")
	t.addAddressFlag(cmd.Flags())
	cmd.Flags().StringVar(&t.data, "data", "", "data folder of a bridge on this machine, to find its address and CA in (AIBRIDGE_DATA)")
	cmd.Flags().StringVar(&t.ca, "ca", os.Getenv("AIBRIDGE_CA"), "PEM file with the roots that the bridge's certificate must chain to (AIBRIDGE_CA)")
	return cmd
}

// nothingToShow says what helps a device that another door than HTTP's does not
// let in to ask.
func nothingToShow(err error) error {
	switch protocol.CodeOf(err) {
	case protocol.NotAuthenticated, protocol.CredentialInvalid:
		return hinted{err, "only the HTTP door lets in who has nothing to show: give its address by --url, such as https://bridge.example:9010"}
	}
	return err
}

func claim(cmd *cobra.Command, t *target, token, csr string) (*issuedCertificate, error) {
	base, err := t.httpURL(cmd.Context())
	if err != nil {
		return nil, nothingToShow(err)
	}
	config, err := t.tlsConfig()
	if err != nil {
		return nil, err
	}
	transport := &http.Transport{Proxy: http.ProxyFromEnvironment, TLSClientConfig: config}
	defer transport.CloseIdleConnections()
	at, err := url.JoinPath(base, "pki", "enroll")
	if err != nil {
		return nil, usageError{err}
	}
	body, err := json.Marshal(map[string]string{"token": token, "csr": csr})
	if err != nil {
		return nil, err
	}
	request, err := http.NewRequestWithContext(cmd.Context(), http.MethodPost, at, bytes.NewReader(body))
	if err != nil {
		return nil, usageError{err}
	}
	request.Header.Set("Content-Type", "application/json")
	answer, err := (&http.Client{Transport: transport, Timeout: 30 * time.Second}).Do(request)
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	var said struct {
		issuedCertificate
		Error *protocol.Error `json:"error"`
	}
	if err := json.NewDecoder(http.MaxBytesReader(nil, answer.Body, maxAnswer)).Decode(&said); err != nil {
		return nil, fmt.Errorf("%s answered %s with something that is no answer: %w", at, answer.Status, err)
	}
	if said.Error != nil {
		return nil, said.Error
	}
	if answer.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s answered %s", at, answer.Status)
	}
	return &said.issuedCertificate, nil
}
