// Package settings reads a configuration, which is a pointer to a struct: from
// a YAML file, from variables AIBRIDGE_…, and from flags. Every leaf of the
// struct is a setting. Its tag yaml is its name in the file, the names from the
// root joined by dashes are its flag, the same in capitals its variable, and its
// tag doc is its meaning.
package settings
