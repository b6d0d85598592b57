package storage

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/storage"

	"github.com/tenantry/tenantry/internal/tenant"
)

// TestExpiring checks how much of what expires a tenant may write, and that others may write as much.
func TestExpiring(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := NewEventBudget()
		write := func(n tenant.Name, uid types.UID, size int64, allowed bool) {
			t.Helper()
			if err := e.take(writer{n, uid}, size); (err == nil) != allowed || err != nil && !apierrors.IsTooManyRequests(err) {
				t.Errorf("%s, %d bytes: %v", n, size, err)
			}
		}
		write("acme", "1", expiringBytes, true)
		write("acme", "1", 1000, false)
		write("globex", "1", 1000, true)
		write("acme", "2", expiringBytes, true) // the next one of the name
		time.Sleep(expiringPeriod / 2)
		write("acme", "1", expiringBytes/2, true)
		write("acme", "1", 1<<20, false)
		time.Sleep(2 * expiringPeriod)
		write("acme", "1", expiringBytes, true)
		write("acme", "1", 1000, false)
	})
}

// TestExpiringWrites checks that each write of what expires is accounted for, new or not, and no other.
func TestExpiringWrites(t *testing.T) {
	configMaps := newBackend(t).configMaps(t, false)
	configMaps.options.Events = NewEventBudget()
	configMaps.options.Events.written.PerSecond = 0 // no more, however long it takes
	const value = 1 << 20
	object := func(name string) *corev1.ConfigMap {
		return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "ns"}, Data: map[string]string{"k": strings.Repeat("x", value)}}
	}
	create := func(n tenant.Scope, name string, ttl uint64) error {
		return configMaps.Create(configMaps.in(t, n, "ns"), configMaps.key("ns", name), object(name), &corev1.ConfigMap{}, ttl)
	}
	update := func(name string, ttl uint64) error {
		return configMaps.GuaranteedUpdate(configMaps.in(t, "a", "ns"), configMaps.key("ns", name), &corev1.ConfigMap{}, false, nil,
			func(input runtime.Object, _ storage.ResponseMeta) (runtime.Object, *uint64, error) {
				labels := map[string]string{"at": time.Now().Format("150405.000000000")}
				input.(*corev1.ConfigMap).Labels = labels
				return input, &ttl, nil
			}, nil)
	}
	if err := create("a", "stays", 0); err != nil {
		t.Fatal(err)
	}
	if err := create("a", "goes", 3600); err != nil {
		t.Fatal(err)
	}
	written := 1
	for ; written < 2*expiringBytes/value; written++ {
		if err := update("goes", 3600); apierrors.IsTooManyRequests(err) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
	}
	if want := expiringBytes/value - 1; written != want {
		t.Errorf("%d writes of 1 MiB and a little more, not %d", written, want)
	}
	if err := create("a", "new", 3600); !apierrors.IsTooManyRequests(err) {
		t.Errorf("a new one: %v", err)
	}
	next := tenant.WithUID(configMaps.in(t, "a", "ns"), "a", "next")
	for name, err := range map[string]error{
		"the next tenant's":    configMaps.Create(next, configMaps.key("ns", "next"), object("next"), &corev1.ConfigMap{}, 3600),
		"what does not expire": create("a", "also stays", 0), "its update": update("stays", 0),
		"another's": create("b", "goes", 3600), "the system's": create(tenant.System.Scope(), "goes", 3600),
	} {
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}
