package commands

import "testing"

func TestVendorDataIsPassedOnWithoutTheProof(t *testing.T) {
	t.Parallel()
	for extension, want := range map[string]string{
		``:                              ``,
		`{"acme":{"deep":[1]}}`:         `{"acme":{"deep":[1]}}`,
		`{"proof":"jwt"}`:               ``,
		`{"acme":1,"proof":"jwt"}`:      `{"acme":1}`,
		`{"acme":1,"pr\u006fof":"jwt"}`: `{"acme":1}`,
		`{"acme":1,"PROOF":"jwt"}`:      `{"acme":1}`,
		`{"acme":{"proof":"of work"}}`:  `{"acme":{"proof":"of work"}}`,
		`{"text":"a proof"}`:            `{"text":"a proof"}`,
	} {
		if got := (&Call{Extension: []byte(extension)}).VendorData(); string(got) != want {
			t.Errorf("%s is passed on as %s, want %s", extension, got, want)
		}
	}
}
