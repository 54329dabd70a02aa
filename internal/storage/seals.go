package storage

import (
	"github.com/aibridge/aibridge/internal/store"
	"github.com/aibridge/aibridge/security/masterkey"
	"github.com/aibridge/aibridge/security/seal"
)

// SealTables declares the tables of data keys and of versions of key files. It comes
// before the store is loaded.
func SealTables(s *store.Store) seal.Tables {
	return seal.Tables{
		Keys:    store.NewTable[seal.DataKey](s, "datakey"),
		Masters: store.NewTable[masterkey.Version](s, "masterkey").Essential(),
		Holders: store.NewTable[masterkey.Holder](s, "masterholder").Essential(),
	}
}
