// Package starter writes the first files of a device: a folder that runs, with a
// skill of the device's own name that has a level to get and to set.
package starter

import (
	"bytes"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/aibridge/aibridge/internal/gotemplate"
	"github.com/aibridge/aibridge/protocol"
	"github.com/aibridge/aibridge/sdk/c"
	"github.com/aibridge/aibridge/sdk/js"
	"github.com/aibridge/aibridge/sdk/python"
)

//go:embed all:python all:js all:go all:c all:shell
var templates embed.FS

// A Language is one that a device can be written in.
type Language struct {
	Name    string // what names it: python
	Summary string // for people
	Run     string // the command that runs the device, in its folder; {{.ID}} is its name

	sdk    func() fs.FS // sources that come along, nil for none
	sdkDir string       // and where they are put
}

// Languages are all there are. The templates of one are in the folder of its name:
// each file ends in .tmpl, without which it is written, and ID in a path is the
// device's name. A file that begins with #! is made executable.
func Languages() []Language {
	return []Language{
		{Name: "python", Summary: "Python 3.9 or newer, with paho-mqtt", Run: "python3 device.py", sdk: python.Source, sdkDir: "aibridge"},
		{Name: "js", Summary: "JavaScript in Node 20 or newer, with MQTT.js", Run: "npm install && node device.js", sdk: js.Source, sdkDir: "aibridge"},
		{Name: "go", Summary: "Go 1.26", Run: "go run ."},
		{Name: "c", Summary: "C99, with libmosquitto", Run: "make && ./device", sdk: func() fs.FS { return c.Source }, sdkDir: "aibridge"},
		{Name: "shell", Summary: "a script for each capability", Run: "aibridge agent end --id {{.ID}} --skills skills"},
	}
}

// Find is the language of a name. The error lists the names there are.
func Find(name string) (Language, error) {
	var names []string
	for _, l := range Languages() {
		if l.Name == name {
			return l, nil
		}
		names = append(names, l.Name)
	}
	return Language{}, fmt.Errorf("%q is none of the languages %s", name, strings.Join(names, ", "))
}

// A Device is what the templates know.
type Device struct {
	ID      protocol.AgentID
	Version string // of this program, v1.2.3, for modules that name it; "" for none
}

// Command is the command that runs the device in its folder.
func (l Language) Command(d Device) string { return strings.ReplaceAll(l.Run, "{{.ID}}", string(d.ID)) }

// Write writes the files of a device into a folder, which must not be there or be
// empty. It returns their paths in the folder.
func (l Language) Write(folder string, d Device) ([]string, error) {
	if reason := checkID(d.ID); reason != "" {
		return nil, protocol.InvalidParam("name", reason)
	}
	if there, err := os.ReadDir(folder); err == nil && len(there) > 0 {
		return nil, fmt.Errorf("%s is there and not empty", folder)
	} else if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	written, err := l.writeTemplates(folder, d)
	if err != nil || l.sdk == nil {
		return written, err
	}
	if err := os.CopyFS(filepath.Join(folder, l.sdkDir), l.sdk()); err != nil {
		return written, err
	}
	return append(written, l.sdkDir+"/"), nil
}

func (l Language) writeTemplates(folder string, d Device) ([]string, error) {
	var written []string
	err := fs.WalkDir(templates, l.Name, func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		inside := strings.TrimSuffix(strings.TrimPrefix(name, l.Name+"/"), ".tmpl")
		inside = strings.ReplaceAll(inside, "ID", string(d.ID))
		text, err := render(name, d)
		if err != nil {
			return err
		}
		written = append(written, inside)
		return write(filepath.Join(folder, filepath.FromSlash(inside)), text)
	})
	return written, err
}

func render(name string, d Device) ([]byte, error) {
	text, err := templates.ReadFile(name)
	if err != nil {
		return nil, err
	}
	template, err := gotemplate.Parse(path.Base(name), string(text))
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	err = template.Execute(&out, d)
	return out.Bytes(), err
}

func write(file string, text []byte) error {
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return err
	}
	mode := fs.FileMode(0o644)
	if bytes.HasPrefix(text, []byte("#!")) {
		mode = 0o755
	}
	return os.WriteFile(file, text, mode)
}

// checkID holds the name to what is an id on the wire and a word everywhere else: in
// file names, programs and module paths.
func checkID(id protocol.AgentID) string {
	if reason := id.Rule().Check(string(id)); reason != "" {
		return reason
	}
	for i, c := range string(id) {
		lower, digit := c >= 'a' && c <= 'z', c >= '0' && c <= '9'
		if !lower && (i == 0 || !digit && c != '-') {
			return "must be of small letters, digits and hyphens, and begin with a letter"
		}
	}
	return ""
}
