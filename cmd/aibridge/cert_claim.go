package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/aibridge/aibridge/protocol"
)

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

// maxAnswer is the most that is read of the body of an HTTP response, in bytes.
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

// nothingToShow advises a device that another door than HTTP's does not
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
