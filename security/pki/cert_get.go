package pki

import (
	"context"

	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/protocol"
)

var certGet = commands.Spec{
	Name:    "cert.get",
	Summary: "Show a certificate with its chain, or a request.",
	Effect:  commands.Read,
	Action:  "cert:get",
	Errors:  []protocol.Code{protocol.CertificateUnknown, protocol.NotFound},
	Example: `{"serial":"8a1b2c3d4e5f6a7b"}`,
}

// GetParams are the params of cert.get.
type GetParams struct {
	Serial    protocol.Serial `json:"serial,omitempty" doc:"of the certificate"`
	RequestID string          `json:"request_id,omitempty" len:"1-64" doc:"or of the request"`
}

// Target implements [commands.Targeter].
func (p GetParams) Target() commands.Resource {
	return commands.Resource{Type: "certificate", ID: string(p.Serial) + p.RequestID}
}

// Validate checks the rules that the fields' tags cannot express.
func (p GetParams) Validate() error {
	if (p.Serial == "") == (p.RequestID == "") {
		return protocol.InvalidParam("serial", "is needed, or request_id, not both")
	}
	return nil
}

// GetResult is the result of cert.get.
type GetResult struct {
	Serial      protocol.Serial `json:"serial,omitempty" doc:"of the certificate, if there is one"`
	Status      string          `json:"status" doc:"of the certificate, or of the request"`
	Certificate *View           `json:"certificate,omitempty" doc:"the certificate; absent of a request that has none yet"`
	Request     *RequestView    `json:"request,omitempty" doc:"the request; absent if the certificate was asked for by its serial"`
	Chain       []string        `json:"chain,omitempty" doc:"in PEM: the certificate, its authority, the root"`
}

// Get shows a certificate or a request. Of a request that has its certificate
// both are shown.
func (s *Service) Get(_ context.Context, call *commands.Call, p GetParams) (GetResult, error) {
	var result GetResult
	if p.RequestID != "" {
		r, _, err := s.request(call, p.RequestID)
		if err != nil {
			return GetResult{}, err
		}
		view := r.view()
		result.Request, result.Status = &view, string(r.State)
		if p.Serial = r.Serial; p.Serial == "" {
			return result, nil
		}
	}
	e, err := s.visible(call, p.Serial)
	if err != nil {
		return GetResult{}, err
	}
	view := e.view(s.opts.Now())
	result.Serial, result.Status = e.Serial, string(view.Status)
	result.Certificate, result.Chain = &view, s.chain(e)
	return result, nil
}
