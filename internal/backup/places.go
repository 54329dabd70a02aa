package backup

import (
	"context"

	"github.com/aibridge/aibridge/internal/store"
)

// Places are the folders and files of a backup besides the store.
type Places struct {
	Runs     string // folder with packages of workflows, and the files of runs
	Caps     string // folder with the local folders of Caps, whose changes may wait for the VFS
	Models   string // folder with configurations of models that were put to work
	Spool    string // files with entries of the audit trail that wait to be stored, without ".0" and ".1"
	Contents string // folder with the contents of files; "" if these are in NATS

	// SharedRuns says that packages and runs are in NATS. Runs holds copies then,
	// and restored ones that the bridge moves to NATS.
	SharedRuns bool
}

// The names of the places in an archive.
const (
	placeRuns     = "runs"
	placeCaps     = "caps"
	placeModels   = "llm"
	placeSpool    = "audit"
	placeContents = "contents"
)

// trees are the folders that are in a backup as they are.
func (p Places) trees() map[string]tree {
	return map[string]tree{
		placeRuns:   {dir: p.Runs, unit: isRun},
		placeCaps:   {dir: p.Caps},
		placeModels: {dir: p.Models},
	}
}

// sources are the files of a backup besides the store and the waiting entries of
// the audit trail.
func (p Places) sources(ctx context.Context, s *store.Store, withoutContents bool) ([]store.FileSource, error) {
	var sources []store.FileSource
	trees := p.trees()
	for _, place := range []string{placeRuns, placeCaps, placeModels} {
		if place == placeRuns && p.SharedRuns {
			sources = append(sources, store.FileSource{Place: place, Add: s.AddRuns})
			continue
		}
		sources = append(sources, store.FileSource{Place: place, Add: trees[place].add})
	}
	switch {
	case withoutContents:
	case p.Contents == "":
		blobs, err := s.OpenBlobs(ctx)
		if err != nil {
			return nil, err
		}
		sources = append(sources, store.FileSource{Place: placeContents, Add: blobs.Add})
	default:
		sources = append(sources, store.FileSource{Place: placeContents, Add: contentsIn(p.Contents)})
	}
	return sources, nil
}

// open opens the places for a restore.
func (p Places) open(ctx context.Context, s *store.Store) (places map[string]store.FileTarget, closing func() error, err error) {
	places = map[string]store.FileTarget{placeSpool: spoolFiles(p.Spool)}
	for place, tree := range p.trees() {
		places[place] = tree
	}
	if p.SharedRuns {
		places[placeRuns] = sharedRuns{p.trees()[placeRuns], s}
	}
	if p.Contents == "" {
		blobs, err := s.OpenBlobs(ctx)
		if err != nil {
			return nil, nil, err
		}
		places[placeContents] = blobs
		return places, func() error { return nil }, nil
	}
	blobs := &contents{dir: p.Contents}
	places[placeContents] = blobs
	return places, blobs.close, nil
}

// sharedRuns take packages and runs from a backup: into the folder, from where the
// bridge moves them when it starts, in the place of those in NATS.
type sharedRuns struct {
	tree
	store *store.Store
}

// Empty implements [store.FileTarget].
func (r sharedRuns) Empty(ctx context.Context) (bool, error) {
	any, err := r.store.HasRuns(ctx)
	return !any, err
}

// Clear implements [store.FileTarget].
func (r sharedRuns) Clear(ctx context.Context) error {
	if err := r.store.ClearRuns(ctx); err != nil {
		return err
	}
	return r.tree.Clear(ctx)
}
