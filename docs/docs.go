// Package docs holds the pages of the documentation, for the site that package
// site makes of them.
package docs

import "embed"

// Files are the pages and their pictures.
//
//go:embed *.md decisions/*.md pictures
var Files embed.FS
