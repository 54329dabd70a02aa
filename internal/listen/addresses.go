package listen

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"maps"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/aibridge/aibridge/commands"
)

// addressesFile is the file with the addresses that a running bridge listens on.
const addressesFile = "addresses.json"

// Addresses are the addresses that a bridge listens on, as host:port.
type Addresses struct {
	MQTT  string `json:"mqtt,omitempty"`  // none when it is off
	MQTTS string `json:"mqtts,omitempty"` // over TLS, none when it is off
	HTTP  string `json:"http"`            // with TLS and without
	WS    string `json:"ws"`              // the same
	Unix  string `json:"unix,omitempty"`  // the path of a unix socket for MQTT, none when it is off

	TLSOnly bool `json:"tls_only,omitempty"` // HTTP and WS are served over TLS only
}

// Doors are the ports of the addresses, for descriptions of the bridge.
func (a Addresses) Doors() *commands.Doors {
	port := func(address string) int {
		_, text, _ := net.SplitHostPort(address)
		n, _ := strconv.Atoi(text) // it is a listener's own address
		return n
	}
	return &commands.Doors{MQTT: port(a.MQTT), MQTTS: port(a.MQTTS), HTTP: port(a.HTTP), WS: port(a.WS), TLSOnly: a.TLSOnly}
}

// ByListener are the addresses that others can reach, by the name of the
// listener.
func (a Addresses) ByListener() map[string]string {
	all := map[string]string{"mqtt": a.MQTT, "mqtts": a.MQTTS, "http": a.HTTP, "ws": a.WS}
	maps.DeleteFunc(all, func(_, address string) bool { return address == "" })
	return all
}

// URL is the address of a path of the HTTP door.
func (a Addresses) URL(path string) string {
	if a.TLSOnly {
		return "https://" + a.HTTP + path
	}
	return "http://" + a.HTTP + path
}

// ReadAddresses reads the addresses of the bridge that uses the folder.
func ReadAddresses(dir string) (Addresses, error) {
	var a Addresses
	data, err := os.ReadFile(filepath.Join(dir, addressesFile))
	if err != nil {
		return a, err
	}
	return a, json.Unmarshal(data, &a)
}

// write puts the file in place whole, so that no reader gets half of it. An equal
// file stays, so that a bridge can start on a full disk.
func (a Addresses) write(dir string) error {
	data, err := json.Marshal(a)
	if err != nil {
		return err
	}
	data = append(data, '\n')
	path := filepath.Join(dir, addressesFile)
	if there, err := os.ReadFile(path); err == nil && bytes.Equal(there, data) {
		return nil
	}
	err = os.WriteFile(path+".part", data, 0o600)
	if err == nil {
		err = os.Rename(path+".part", path)
	}
	if err != nil {
		_ = os.Remove(path + ".part")
		_ = os.Remove(path) // which would lead elsewhere
	}
	return err
}

const writeAgain = 5 * time.Second

// Keep writes the addresses into the folder, as soon as the disk takes them.
func (a Addresses) Keep(ctx context.Context, dir string, log *slog.Logger) {
	for told := false; ; told = true {
		err := a.write(dir)
		if err == nil {
			return
		}
		if !told {
			log.Error("the addresses are not written: the command line does not find the bridge by its data folder", "error", err)
		}
		select {
		case <-time.After(writeAgain):
		case <-ctx.Done():
			return
		}
	}
}
