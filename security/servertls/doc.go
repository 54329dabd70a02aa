// Package servertls authenticates the bridge over TLS, and asks clients for
// certificates: with a certificate of its own authority or one in files, which is
// watched for its end.
package servertls
