package mirror

import (
	"errors"
	"os"

	"github.com/aibridge/aibridge/vfs/mirror/tree"
)

// ErrInUse reports a folder that is being mirrored already.
var ErrInUse = errors.New("the folder is mirrored by somebody else already")

// lockFolder keeps the folder for one process. The system drops the lock with
// the process, however that ends.
func lockFolder(root *os.Root) (*os.File, error) {
	f, err := root.OpenFile(tree.Private+"/lock", os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	if err := lockFile(f); err != nil {
		return nil, errors.Join(ErrInUse, f.Close())
	}
	return f, nil
}
