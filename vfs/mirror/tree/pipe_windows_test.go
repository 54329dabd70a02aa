package tree

import "testing"

func pipe(t *testing.T, _ string) { t.Skip("no pipes here") }
