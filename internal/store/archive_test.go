package store

import (
	"bytes"
	"compress/gzip"
	"testing"

	"github.com/nats-io/nats.go"
)

func FuzzArchive(f *testing.F) {
	var good bytes.Buffer
	a := newArchiveWriter(&good, nil)
	_ = a.begin(registrySection)
	_ = a.line(registryLine{Table: "thing", Key: "a", Revision: 7, Record: []byte(`{"v":1,"d":{}}`)})
	_ = a.begin(claimsSection)
	_ = a.line(claimLine{Principal: "p", RequestID: "r"})
	if err := a.end(); err != nil {
		f.Fatal(err)
	}
	f.Add(good.Bytes())
	f.Add(good.Bytes()[:1500])
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, tar []byte) {
		var zipped bytes.Buffer
		zip := gzip.NewWriter(&zipped)
		_, _ = zip.Write(tar)
		_ = zip.Close()
		lines := 0
		m, err := readArchive(&zipped, func(section string, line []byte) error {
			lines++
			if section == claimsSection {
				_, _ = parseClaimLine(line)
			}
			return nil
		})
		if err != nil {
			return
		}
		for _, part := range m.Parts {
			lines -= part.Lines
		}
		if lines != 0 {
			t.Errorf("the manifest counts %d lines less", lines)
		}
	})
}

func FuzzDelivery(f *testing.F) {
	f.Add("$JS.ACK.stream.consumer.1.22.3.1700000000000000000.4")
	f.Add("$JS.ACK._.hash.stream.consumer.1.22.3.1700000000000000000.4.token")
	f.Add("$JS.ACK.stream.consumer.1.-1.3.1.4")
	f.Add("")
	f.Fuzz(func(t *testing.T, reply string) {
		msg := &nats.Msg{Reply: reply}
		m, position, err := parseDelivery(msg)
		if err != nil {
			return
		}
		meta, err := (&nats.Msg{Reply: reply, Sub: &nats.Subscription{}}).Metadata()
		if err != nil {
			return // we look at the numbers only
		}
		if m.seq != meta.Sequence.Stream || position != meta.Sequence.Consumer || m.left != meta.NumPending {
			t.Errorf("%q: %d, %d, %d, want %+v", reply, m.seq, position, m.left, meta)
		}
	})
}
