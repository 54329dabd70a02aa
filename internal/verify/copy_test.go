package verify

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/aibridge/aibridge/internal/config"
)

// TestEverySettingThatLeadsOutIsLeftOut gives every setting that has text an
// address, and wants none of them to reach the copy but those that lead nowhere.
// Whoever adds a setting decides here which it is.
func TestEverySettingThatLeadsOutIsLeftOut(t *testing.T) {
	t.Parallel()
	const outside = "https://outside.example:1"
	var c config.Config
	populate(reflect.ValueOf(&c).Elem())
	eachText(reflect.ValueOf(&c).Elem(), "", func(v reflect.Value, _ string) { v.SetString(outside) })
	copied := isolated(c, t.TempDir(), "http://127.0.0.1:1")
	var left []string
	eachText(reflect.ValueOf(&copied).Elem(), "", func(v reflect.Value, name string) {
		if v.String() == outside {
			left = append(left, name)
		}
	})
	slices.Sort(left)
	want := strings.Fields(`
		A2A.TrustedJWKS Approvals.AskAbout Approvals.ConsoleURL Approvals.People Audit.Arguments Audit.Level Hosts ID Log.Format
		MCP.URL MQTT.TopicMetrics MQTT.UnixMode Origins PKI.KeyType PKI.Names PKI.PassphraseFile PKI.PublicURL Root
		Runs.MCPServers Runs.Tools Security.Policies Sync Tools.Commands`)
	for _, name := range left {
		if !slices.Contains(want, name) && !strings.HasPrefix(name, "Approvals.Rules.") {
			t.Errorf("%s reaches the copy", name)
		}
	}
	if !slices.Contains(left, "Hosts") {
		t.Errorf("only %v were found", left)
	}
}

// eachText calls do with every text of a value.
func eachText(v reflect.Value, name string, do func(v reflect.Value, name string)) {
	if !v.CanSet() {
		return
	}
	switch v.Kind() {
	case reflect.String:
		do(v, name)
	case reflect.Struct:
		for i := range v.NumField() {
			eachText(v.Field(i), strings.TrimPrefix(name+"."+v.Type().Field(i).Name, "."), do)
		}
	case reflect.Slice:
		for i := range v.Len() {
			eachText(v.Index(i), name, do)
		}
	case reflect.Map:
		for _, key := range v.MapKeys() {
			value := reflect.New(v.Type().Elem()).Elem()
			value.Set(v.MapIndex(key))
			eachText(value, name, do)
			v.SetMapIndex(key, value)
		}
	}
}

// populate gives every list and every map of a value one element.
func populate(v reflect.Value) {
	if !v.CanSet() {
		return
	}
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			populate(v.Field(i))
		}
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		populate(v.Index(0))
	case reflect.Map:
		value := reflect.New(v.Type().Elem()).Elem()
		populate(value)
		v.Set(reflect.MakeMap(v.Type()))
		v.SetMapIndex(reflect.New(v.Type().Key()).Elem(), value)
	}
}
