// Package http is the HTTP and WebSocket front door: commands in, answers and
// events out, an OpenAPI document of the commands, and the endpoints for operators
// (/healthz, /readyz, /metrics).
//
// It only translates. Every request becomes an envelope for the router, which decides everything
// else; the router's answer becomes a status, a body and headers. Three things are this package's
// own, because they come before there is an envelope: the principal of the request, protection from
// web pages of other sites ([Guard]), and the size that may be read.
package http
