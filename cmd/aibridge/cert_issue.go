package main

import (
	"encoding/json"
	"errors"
	"fmt"
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

// name is the holder's name in the signing request.
func (w *wanted) name() string {
	for _, name := range []string{w.operator, w.agent, w.skill} {
		if name != "" {
			return name
		}
	}
	return ""
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
