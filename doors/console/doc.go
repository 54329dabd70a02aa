// Package console serves the page for people at the bridge's HTTP address, and
// lets them sign in to it. The page is a client like any other: what it shows
// and does goes through commands, as the person who signed in.
//
// A person signs in with an API key, or with OpenID Connect, and the browser
// gets a cookie that names a session of this process. The credential itself is
// kept nowhere: a session holds a grant, so it ends with the credential. The
// cookie counts for requests of the page's own origin only.
package console
