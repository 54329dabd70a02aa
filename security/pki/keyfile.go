package pki

import (
	"context"
)

// Sealed counts the authorities whose keys each version of the key file has sealed,
// by its id. It is a function of the records, for the service that rotates the file.
func (s *Service) Sealed() map[string]int {
	all := make(map[string]int)
	for _, stored := range s.opts.Authorities.All() {
		for _, ca := range stored.CAs {
			switch {
			case ca.Key == nil || ca.Key.Method != byFile:
			case ca.Key.Version == "":
				all[s.opts.KeyFile.First()]++
			default:
				all[ca.Key.Version]++
			}
		}
	}
	return all
}

// FollowKeyFile puts the active version of the key file into the data folder, and seals with
// it the authorities' keys that an older one has sealed. It returns how many.
func (s *Service) FollowKeyFile(ctx context.Context) (n int, err error) {
	if !s.opts.KeyFile.There() {
		return 0, nil
	}
	if n, err = s.cas().reseal(ctx, &s.opts, s.seal); err != nil {
		return n, err
	}
	return n, s.opts.KeyFile.Adopt(ctx)
}
