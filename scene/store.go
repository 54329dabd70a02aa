package scene

import (
	"context"

	"github.com/aibridge/aibridge/internal/records"
	"github.com/aibridge/aibridge/protocol"
)

// sceneKey is the key of a scene: ids have no slash.
func sceneKey(space protocol.SpaceID, t protocol.SceneType, c protocol.CapID) string {
	return string(space) + "/" + string(t) + "/" + string(c)
}

// change replaces a scene by what edit makes of it, see [records.Change].
func (s *Service) change(ctx context.Context, key string, edit func(old *Scene) (*Scene, error)) (value *Scene, revision uint64, err error) {
	return records.Change(ctx, s.opts.Scenes, key, func(old *Scene, _ uint64) (*Scene, error) { return edit(old) })
}
