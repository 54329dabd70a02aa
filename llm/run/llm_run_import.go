package run

import (
	"context"
	"encoding/base64"
	"errors"
	"strings"

	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/llm/run/fault"
	"github.com/aibridge/aibridge/llm/run/pack"
	"github.com/aibridge/aibridge/protocol"
)

var importPackage = commands.Spec{
	Name:    "llm.run.import",
	Summary: "Check a workflow package and keep it for runs.",
	Effect:  commands.Write,
	Action:  "llm:import",
	Async:   true,
	Errors:  []protocol.Code{protocol.AlreadyExists, protocol.LimitReached, protocol.FileNotFound, protocol.VFSPermission, protocol.VFSUnavailable},
	Example: `{"group_name":"workflows","path":"climate-check-1.0.0.zip"}`,
}

// ImportParams are the params of llm.run.import.
type ImportParams struct {
	Group   protocol.GroupName `json:"group_name,omitempty" doc:"group of files that the zip is in, however it came there; with path"`
	Path    string             `json:"path,omitempty" len:"1-1024" audit:"yes" doc:"the zip's path there"`
	Content string             `json:"content,omitempty" doc:"the zip itself in base64, instead"`
	Replace bool               `json:"replace,omitempty" doc:"replace another package of that name and version; runs of the replaced one keep it"`
}

// Target implements [commands.Targeter].
func (p ImportParams) Target() commands.Resource {
	return commands.Resource{Type: "llm", ID: "packages"}
}

// PackageResult is a package in the results for callers.
type PackageResult struct {
	Name        string          `json:"name" doc:"name of the package"`
	Version     string          `json:"version" doc:"its version"`
	SHA256      string          `json:"sha256" doc:"of the zip, hexadecimal"`
	Bytes       int             `json:"bytes" doc:"of the zip"`
	Description string          `json:"description,omitempty" doc:"purpose"`
	Author      string          `json:"author,omitempty" doc:"author, as declared by the package"`
	Workflows   []PackagedFlow  `json:"workflows" doc:"its workflows; the first is the one to start with"`
	Agents      []PackagedAgent `json:"agents" doc:"its agents"`
	Warnings    []string        `json:"warnings,omitempty" doc:"oddities of it that harm nothing"`
	By          string          `json:"imported_by" doc:"principal who imported it"`
	At          int64           `json:"imported_at" doc:"time, Unix milliseconds"`
}

func (r *PackageRecord) result() PackageResult {
	return PackageResult{
		Name: r.Name, Version: r.Version, SHA256: r.SHA256, Bytes: r.Bytes, Description: r.Description, Author: r.Author,
		Workflows: r.Workflows, Agents: r.Agents, Warnings: r.Warnings, By: r.By, At: r.At.UnixMilli(),
	}
}

func packageKey(space protocol.SpaceID, name, version string) string {
	return string(space) + "/" + name + "@" + version
}

// Import checks and stores a package.
func (s *Service) Import(ctx context.Context, call *commands.Call, p ImportParams) (PackageResult, error) {
	zip, err := s.zip(ctx, call, &p)
	if err != nil {
		return PackageResult{}, err
	}
	read, err := pack.Read(zip, s.opts.Limits)
	if err == nil {
		err = read.CheckMenus()
	}
	if err != nil {
		return PackageResult{}, p.refused(err)
	}
	r := recordOf(read)
	r.Space, r.Bytes, r.By, r.At = call.Principal.Home(), len(zip), call.Principal.ID, s.opts.Now().UTC()
	key := packageKey(r.Space, r.Name, r.Version)
	before, _, there := s.opts.Packages.Get(key)
	switch {
	case there && before.SHA256 != r.SHA256 && !p.Replace:
		return PackageResult{}, protocol.Errorf(protocol.AlreadyExists,
			"%s %s is there with other contents; give it another version, or say replace", r.Name, r.Version).
			With("sha256", before.SHA256)
	case !there && s.packagesOf(r.Space) >= s.opts.MaxPackage:
		return PackageResult{}, protocol.Errorf(protocol.LimitReached, "the space has %d packages", s.opts.MaxPackage).With("limit", s.opts.MaxPackage)
	}
	if there && before.SHA256 == r.SHA256 {
		return before.result(), s.library.add(ctx, read, zip) // the zip may be missing
	}
	if err := s.shelve(ctx, key, r, read, zip); err != nil {
		return PackageResult{}, err
	}
	if there {
		s.prune([]string{before.SHA256})
	}
	return r.result(), nil
}

// shelve stores the zip and the record of a package.
func (s *Service) shelve(ctx context.Context, key string, r *PackageRecord, read *pack.Package, zip []byte) error {
	s.refer.RLock()
	defer s.refer.RUnlock()
	if err := s.library.add(ctx, read, zip); err != nil {
		return err
	}
	if _, err := s.opts.Packages.Put(ctx, key, r); err != nil {
		return err
	}
	return s.library.add(ctx, read, zip) // another bridge may have removed the zip before it saw the record
}

// refused converts the fault of a package, with the name of the parameter that held it.
func (p *ImportParams) refused(err error) error {
	err = told(err)
	var invalid *protocol.Error
	if errors.As(err, &invalid) && invalid.Code == protocol.InvalidParameter {
		name := "content"
		if p.Path != "" {
			name = "path"
		}
		return invalid.With("param_name", name)
	}
	return err
}

func (s *Service) packagesOf(space protocol.SpaceID) int {
	n := 0
	for _, r := range s.opts.Packages.All() {
		if r.Space == space {
			n++
		}
	}
	return n
}

// defaultZip is the default size of the largest zip, in bytes.
const defaultZip = 32 << 20

// zip returns the zip of the params, from the content or from a file.
func (s *Service) zip(ctx context.Context, call *commands.Call, p *ImportParams) (zip []byte, err error) {
	switch {
	case p.Content != "" && (p.Group != "" || p.Path != ""):
		return nil, protocol.InvalidParam("content", "and path exclude each other")
	case p.Content != "":
		zip, err := base64.StdEncoding.DecodeString(p.Content)
		if err != nil {
			return nil, protocol.InvalidParam("content", "must be base64")
		}
		return zip, nil
	case p.Group == "" || p.Path == "":
		return nil, protocol.InvalidParam("path", "and group_name are needed, or content")
	case s.opts.Fetch == nil:
		return nil, protocol.Errorf(protocol.VFSUnavailable, "there are no files here")
	}
	most := s.opts.Limits.Zip
	if most == 0 {
		most = defaultZip
	}
	err = call.Park(ctx, func(ctx context.Context) error {
		zip, err = s.opts.Fetch(ctx, call.Principal, string(p.Group), p.Path, most)
		return err
	})
	return zip, err
}

// told converts a fault to an error for callers of commands.
func told(err error) error {
	var f *fault.Error
	if errors.As(err, &f) {
		return f.Protocol()
	}
	return err
}

// packageNamed finds a package by its name, or name@version. Of several versions the
// last imported one counts.
func (s *Service) packageNamed(space protocol.SpaceID, ref string) (*PackageRecord, error) {
	if name, version, ok := strings.Cut(ref, "@"); ok {
		if r, _, ok := s.opts.Packages.Get(packageKey(space, name, version)); ok {
			return r, nil
		}
	}
	var latest *PackageRecord
	for _, r := range s.opts.Packages.All() {
		if r.Space == space && r.Name == ref && (latest == nil || r.At.After(latest.At)) {
			latest = r
		}
	}
	if latest == nil {
		return nil, protocol.Errorf(protocol.NotFound, "no package %.100q; llm.run.packages lists them", ref).With("param_name", "package")
	}
	return latest, nil
}
