package tools

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
)

// meanings embeds by what texts are about: warmth, light, doors.
type meanings struct {
	texts int
	err   error
}

func (m *meanings) Embed(_ context.Context, texts []string) ([][]float32, error) {
	if m.err != nil {
		return nil, m.err
	}
	m.texts += len(texts)
	vectors := make([][]float32, len(texts))
	for i, text := range texts {
		v := []float32{0.01, 0.01, 0.01}
		for k, words := range []string{"thermostat heating cold warm freezing", "lamp light dark bright", "door lock open"} {
			for word := range split(words) {
				if strings.Contains(strings.ToLower(text), word) {
					v[k] += 1
				}
			}
		}
		vectors[i] = v
	}
	return vectors, nil
}

func split(text string) func(func(string) bool) { return slices.Values(strings.Fields(text)) }

func TestMeaningIsBlendedIn(t *testing.T) {
	box := toolbox(t, named("skill", "door.lock", "heating.set", "lamp.on", "lamp.off", "radio.play")...)
	m := new(meanings)
	blender := NewBlender(m)
	for query, want := range map[string]string{
		"I am freezing":   "heating.set", // no word in common
		"it is dark here": "lamp.off",
		"play it":         "radio.play", // by its words alone
	} {
		got, err := blender.Relevant(t.Context(), box, query, 2)
		if err != nil || len(got) != 2 || got[0].Name != want {
			t.Errorf("%q finds %s, %v", query, namesOf(got), err)
		}
		if again, _ := blender.Relevant(t.Context(), box, query, 2); !slices.Equal(got, again) {
			t.Errorf("%q finds others the second time", query)
		}
	}
	if m.texts != 5+6 {
		t.Errorf("%d texts were embedded", m.texts)
	}
	m.err = errors.New("the provider is gone")
	got, err := blender.Relevant(t.Context(), box, "lamp off", 1)
	if !errors.Is(err, m.err) || namesOf(got) != "lamp.off" {
		t.Errorf("without a provider: %s, %v", namesOf(got), err)
	}
}
