// Package servertls proves the bridge's identity over TLS, and asks its
// clients to: with a certificate of its own authority or one in files, which is
// watched for its end.
package servertls
