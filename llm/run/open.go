package run

import (
	"context"
	"errors"
	"io"

	"github.com/aibridge/aibridge/llm/run/mount"
	"github.com/aibridge/aibridge/protocol"
)

// folder is the folder of a run's files on this disk.
func (s *Service) folder(id string) string { return folders{s.opts.Dir}.of(id) }

// stateFolder is the folder of a run's @state.
func (s *Service) stateFolder(id string) string { return folders{s.opts.Dir}.stateOf(id) }

// opened holds everything that the engine of a run needs.
type opened struct {
	workspace *workspace
	diary     *sealedDiary
	story     story
	effects   *effects
}

func (o *opened) close() error {
	var err error
	if o.diary != nil {
		err = o.diary.book.close()
	}
	if o.workspace == nil {
		return err
	}
	for _, m := range []mount.FS{o.workspace.mounts.State, o.workspace.mounts.Project} {
		if c, ok := m.(io.Closer); ok {
			_ = c.Close() // its writes are durable already
		}
	}
	return err
}

// open opens the workspace and the diary of a run, and reads the diary.
func (s *Service) open(ctx context.Context, r *Record, claim uint64) (*opened, error) {
	o := &opened{effects: newEffects(r.ID)}
	o.story.done = func(int, *toldTurn) {} // only the number of earlier turns is needed
	book := s.shelf.take(ctx, r.ID, claim)
	var err error
	o.diary, err = openDiary(ctx, book, "run/"+r.ID, s.opts.Sealer, func(e *entry) {
		o.story.read(e)
		o.effects.read(e)
	})
	if err != nil {
		return nil, err
	}
	if o.workspace, err = s.workspace(ctx, r, book); err != nil {
		return nil, errors.Join(err, o.close()) // close handles a partly opened run
	}
	return o, nil
}

// workspace opens the package, the files and the project of a run.
func (s *Service) workspace(ctx context.Context, r *Record, b book) (*workspace, error) {
	w := &workspace{mode: r.Mode, system: s.policy(r), named: r.Tools != nil, quota: s.opts.Quota}
	if r.Package != "" {
		p, err := s.library.load(ctx, r.Package)
		if err != nil {
			return nil, err
		}
		w.pkg, w.active = p.Package, p.Agent(r.Agent)
		if r.Mode == ModeRun {
			if w.workflow = p.Workflow(r.Workflow); w.workflow == nil {
				return nil, protocol.Errorf(protocol.NotFound, "the package has no workflow %.100q", r.Workflow)
			}
		}
		w.mounts.Pkg = p.files
	}
	var err error
	if w.mounts.State, err = b.state(ctx); err != nil {
		return nil, err
	}
	if s.opts.Project != nil && r.Project != "" {
		if w.mounts.Project, err = s.opts.Project(ctx, r.Owner, r.Project); err != nil {
			return w, err
		}
	}
	return w, nil
}

// policy is the system's policy for a run, restricted to the tools that its starter has
// named.
func (s *Service) policy(r *Record) Policy {
	p := s.opts.Policy
	if r.Tools != nil {
		p.Tools = common(p.Tools, r.Tools)
	}
	return p
}

// close closes the diary and the files of a run.
func (s *Service) close(l *live, o *opened) {
	if err := o.close(); err != nil && !errors.Is(err, errElsewhere) {
		s.opts.Log.Warn("the last entries of a run are not stored", "run", l.id, "error", err)
	}
}
