package http

import (
	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/protocol"
)

// addEnrolmentPaths describes the public paths under /pki/ of a bridge with
// authorities of its own (docs/certificates.md).
func addEnrolmentPaths(paths object, set *commands.Set) {
	request, ok := set.Find("cert.request")
	if !ok {
		return
	}
	file := func(mediaType string) object { return object{mediaType: object{"schema": object{"type": "string"}}} }
	paths["/pki/ca.pem"] = object{"get": openOperation("pki-root", "Fetch the root certificate.", object{
		"200": object{"description": "The certificate in PEM.", "content": file("application/x-pem-file")},
	})}
	list := openOperation("pki-revocations", "Fetch the revocation list of an authority.", object{
		"200": object{"description": "The list in DER.", "content": file("application/pkix-crl")},
		"404": errorResponse([]protocol.Code{protocol.NotFound}),
	})
	list["parameters"] = []object{{
		"name": "authority", "in": "path", "required": true, "description": "such as operator",
		"schema": object{"type": "string"},
	}}
	paths["/pki/{authority}.crl"] = object{"get": list}

	responses := object{"200": object{"description": "The certificate is issued.", "content": jsonContent(embedded(request.ResultSchema()))}}
	for status, codes := range byStatus([]protocol.Code{
		protocol.MalformedEnvelope, protocol.InvalidParameter, protocol.CredentialInvalid, protocol.Busy, protocol.RateLimited,
		protocol.Internal, protocol.StoreUnavailable,
	}) {
		responses[status] = errorResponse(codes)
	}
	enrol := openOperation("pki-enroll", "Enrol with nothing but a claim token.", responses)
	enrol["requestBody"] = object{"required": true, "content": jsonContent(object{
		"type": "object", "required": []string{"token", "csr"}, "additionalProperties": false,
		"properties": object{
			"token": object{"type": "string", "description": "the claim token, good once"},
			"csr":   object{"type": "string", "description": "the certificate signing request in PEM"},
		},
	})}
	paths["/pki/enroll"] = object{"post": enrol}
}

// openOperation is one that wants no credential.
func openOperation(id, summary string, responses object) object {
	if _, described := responses["403"]; !described {
		responses["403"] = refusedByGuard()
	}
	return object{"operationId": id, "summary": summary, "tags": []string{"cert"}, "security": []object{{}}, "responses": responses}
}
