package webdav

// Settings say whether files are served by WebDAV.
type Settings struct {
	On bool `yaml:"on" doc:"serve files by WebDAV at /dav/ of the HTTP address"`
}
