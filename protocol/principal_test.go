package protocol

import (
	"encoding/json"
	"reflect"
	"testing"
	"time"
)

func TestAnIdentityIsItsPrincipalAcrossARecord(t *testing.T) {
	p := &Principal{
		Kind: KindAgent, ID: "lamp", Space: "home", Roles: []string{RoleEndAgent}, Attributes: map[string]string{"floor": "1"},
		Credential: "k1", Method: MethodToken, Scopes: []string{"skill:*"}, Expires: time.Unix(20, 0).UTC(), Issued: time.Unix(10, 0).UTC(), CertSerial: "0123456789ABCDEF",
	}
	for i, value := 0, reflect.ValueOf(*p); i < value.NumField(); i++ {
		if value.Field(i).IsZero() {
			t.Fatalf("the test leaves out %s", value.Type().Field(i).Name)
		}
	}
	record, err := json.Marshal(p.Identity())
	if err != nil {
		t.Fatal(err)
	}
	var read Identity
	if err := json.Unmarshal(record, &read); err != nil || !reflect.DeepEqual(read.Principal(), p) {
		t.Errorf("%v: %s became %+v", err, record, read)
	}
}
