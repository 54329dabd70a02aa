// Package http is the HTTP and WebSocket front door: commands in, answers and
// events out, an OpenAPI document of what there is, and what operators ask of
// a running node (/healthz, /readyz, /metrics).
//
// It only translates. Whatever comes in becomes an envelope for the router,
// which decides everything else; what the router answers becomes a status, a
// body and headers. Three things are this package's own, because they come before there
// is an envelope: the principal of the request, protection from web pages of other sites
// ([Guard]), and the size that may be read.
package http
