package vfs

import (
	"context"
	"io"
	"strings"

	"github.com/aibridge/aibridge/protocol"
)

// FolderMarker is the name of the empty file that stands for the folder which it
// is in. A folder is there as long as a file is below it; one that was made
// empty, by a door whose clients make folders first, has this file.
const FolderMarker = ".folder"

// FolderType is the media type of a [FolderMarker].
const FolderType = "application/x-directory"

// MarkerOf is the path of the file that stands for a folder, "" for the whole
// group.
func MarkerOf(folder string) string {
	if folder == "" {
		return FolderMarker
	}
	return folder + "/" + FolderMarker
}

// IsMarker reports whether a path is that of a file that stands for a folder.
func IsMarker(path string) bool {
	return path == FolderMarker || strings.HasSuffix(path, "/"+FolderMarker)
}

// A Located is a file or a folder, and the files that it is one of. An empty path
// is the whole group.
type Located struct {
	Files Files
	Group string
	Path  string
}

// below is the common beginning of the paths of everything in a folder.
func (l Located) below() string {
	if l.Path == "" {
		return ""
	}
	return l.Path + "/"
}

// Copy makes a version of a file, 0 for the current one, another file's new
// version. Within one store only the record is written, and no content is read. The
// content type and the time of the source go with it unless o says others.
func Copy(ctx context.Context, from Located, version uint64, to Located, o PutOptions) (File, error) {
	content, f, err := from.Files.Open(ctx, from.Group, from.Path, version)
	if err != nil {
		return File{}, err
	}
	defer content.Close()
	o.Size, o.SHA256 = f.Size, &f.SHA256
	if o.ContentType == "" {
		o.ContentType = f.ContentType
	}
	if o.Mtime == 0 {
		o.Mtime = f.Mtime
	}
	if from.Group == to.Group || together(from.Files, to.Files) {
		return PutCopy(ctx, to.Files, to.Group, to.Path, Source{from.Group, from.Path, f.Version}, o)
	}
	return to.Files.Put(ctx, to.Group, to.Path, io.Reader(content), o)
}

// together reports whether both are files of one space in one store.
func together(a, b Files) bool {
	one, ok := a.(*Space)
	other, also := b.(*Space)
	return ok && also && one.store == other.store && one.space == other.space
}

// Move is [Copy] of a file that is deleted afterwards, if it is unchanged: a file
// that is written meanwhile stays, beside its copy.
func Move(ctx context.Context, from, to Located, o PutOptions) (File, error) {
	f, err := from.Files.Stat(ctx, from.Group, from.Path)
	if err != nil {
		return File{}, err
	}
	moved, err := Copy(ctx, from, f.Version, to, o)
	if err != nil {
		return File{}, err
	}
	_, err = from.Files.Delete(ctx, from.Group, from.Path, f.Version)
	return moved, err
}

// MaxTree bounds the files that are copied, moved or deleted with their folder in
// one call.
const MaxTree = 10_000

// Walk calls visit for the files below a folder, those of a page at a time, until
// there are no more or visit fails. Files that visit deletes or adds do not disturb
// it.
func Walk(ctx context.Context, folder Located, visit func(File) error) error {
	cursor := ""
	for {
		page, next, err := folder.Files.List(ctx, folder.Group, folder.below(), cursor, MaxLimit, false)
		if err != nil {
			return err
		}
		for i := range page {
			if err := visit(page[i]); err != nil {
				return err
			}
		}
		if next == "" {
			return nil
		}
		cursor = next
	}
}

// CheckTree refuses with 1004 a folder with more files than [MaxTree], and with 4003
// an empty one.
func CheckTree(ctx context.Context, folder Located) error {
	files, cursor := 0, ""
	for {
		page, next, err := folder.Files.List(ctx, folder.Group, folder.below(), cursor, MaxLimit, false)
		if err != nil {
			return err
		}
		switch files += len(page); {
		case files > MaxTree:
			return errTree(folder)
		case next == "" && files == 0:
			return NoFile(folder.Group, folder.Path)
		case next == "":
			return nil
		}
		cursor = next
	}
}

func errTree(folder Located) error {
	return protocol.Errorf(protocol.PayloadTooLarge, "the folder has more than %d files; take its folders one by one", MaxTree).
		With("group_name", folder.Group).With("path", folder.Path).With("limit", MaxTree)
}

// DeleteTree deletes all files below a folder, and returns how many. Each file is
// deleted by itself: if one cannot be, those before it are gone.
func DeleteTree(ctx context.Context, folder Located) (deleted int, err error) {
	err = Walk(ctx, folder, func(f File) error {
		_, err := folder.Files.Delete(ctx, folder.Group, f.Path, f.Version)
		switch protocol.CodeOf(err) {
		case protocol.FileNotFound:
			return nil
		case protocol.RevisionConflict: // it was written meanwhile: the new version was not to go
			return err
		}
		if err == nil {
			deleted++
		}
		return err
	})
	return deleted, err
}

// A TreeOp is an operation on each file of a folder: [CopyFile] or [Move].
type TreeOp func(ctx context.Context, from, to Located, o PutOptions) (File, error)

// CopyFile is [Copy] of the current version.
func CopyFile(ctx context.Context, from, to Located, o PutOptions) (File, error) {
	return Copy(ctx, from, 0, to, o)
}

// Tree does op with all files below a folder, and returns their number. Each file
// succeeds or fails by itself. The folder must not be within the one that it
// becomes, nor the other way round.
func Tree(ctx context.Context, op TreeOp, from, to Located, o PutOptions) (done int, err error) {
	if from.Group == to.Group && (Within(from.Path, to.Path) || Within(to.Path, from.Path)) {
		return 0, protocol.InvalidParam("to_path", "is within the folder, or the folder within it")
	}
	err = Walk(ctx, from, func(f File) error {
		source, target := from, to
		source.Path = f.Path
		target.Path = to.below() + strings.TrimPrefix(f.Path, from.below())
		_, err := op(ctx, source, target, o)
		if err == nil {
			done++
		}
		return err
	})
	return done, err
}

// Within reports whether a path is a folder or in it. Everything is within "".
func Within(path, folder string) bool {
	return folder == "" || path == folder || strings.HasPrefix(path, folder+"/")
}
