package intern

import (
	"strings"
	"testing"
	"unsafe"
)

func same(a, b string) bool { return unsafe.StringData(a) == unsafe.StringData(b) }

func TestStringsShareTheirMemory(t *testing.T) {
	first, second := strings.Clone("kube-system"), strings.Clone("kube-system")
	if same(first, second) {
		t.Fatal("the clones are one string already")
	}
	if a, b := String(first), String(second); a != "kube-system" || !same(a, b) {
		t.Errorf("got %q and %q, want one string", a, b)
	}
}

func TestMap(t *testing.T) {
	a := map[string]string{strings.Clone("kubernetes.io/metadata.name"): strings.Clone("default")}
	b := map[string]string{strings.Clone("kubernetes.io/metadata.name"): strings.Clone("default")}
	Map(a)
	Map(b)
	for key, value := range a {
		if key != "kubernetes.io/metadata.name" || value != "default" {
			t.Errorf("got %q=%q", key, value)
		}
		for other, otherValue := range b {
			if !same(key, other) || !same(value, otherValue) {
				t.Error("the maps do not share their strings")
			}
		}
	}
}

func TestStringDoesNotAllocate(t *testing.T) {
	s := String(strings.Clone("kube-public"))
	if n := testing.AllocsPerRun(100, func() { s = String(s) }); n != 0 {
		t.Errorf("got %v allocations for a known string", n)
	}
}

func BenchmarkString(b *testing.B) {
	s := strings.Clone("tenantry.io/tenant")
	b.ReportAllocs()
	for b.Loop() {
		String(s)
	}
}
