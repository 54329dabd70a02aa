package s3

// Settings say whether files are served by the protocol of Amazon S3.
type Settings struct {
	On bool `yaml:"on" doc:"serve files by the protocol of Amazon S3, at /s3/ of the HTTP address"`
}
