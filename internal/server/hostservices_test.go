package server

import (
	"context"
	"errors"
	"net/netip"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	utilcache "k8s.io/apimachinery/pkg/util/cache"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/cache"
	testingclock "k8s.io/utils/clock/testing"

	"github.com/tenantry/tenantry/internal/server/egress"
	"github.com/tenantry/tenantry/internal/tenant"
	"github.com/tenantry/tenantry/internal/workloads/names"
)

func serviceOf(n tenant.Name, name string, addresses ...string) *corev1.Service {
	return &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: tenant.Flatten(n, "shop").String(), Name: name, UID: types.UID("uid-" + name)},
		Spec: corev1.ServiceSpec{ClusterIPs: addresses, Ports: []corev1.ServicePort{
			{Protocol: corev1.ProtocolTCP, Port: 443}, {Protocol: corev1.ProtocolUDP, Port: 53}, {Protocol: corev1.ProtocolTCP, Port: 8443},
		}},
	}
}

// TestHostServices checks that an address is a tenant's if the host has given it to a Service of the tenant, and
// somebody else's if a Service of a space says it has it.
func TestHostServices(t *testing.T) {
	home := func(n tenant.Name) names.Namespace {
		return names.Namespace{Installation: "i", Tenant: n, TenantUID: types.UID("uid-" + n), Name: "shop", UID: "n"}
	}
	given := func(n tenant.Name, name string, uid types.UID, addresses ...string) *corev1.Service {
		made := serviceOf(n, name, addresses...)
		of := made.DeepCopy()
		of.UID = uid
		made.ObjectMeta = home(n).Meta(name, of)
		made.Spec.Ports = made.Spec.Ports[:2] // the space's has had another one since
		return made
	}
	strange := given("globex", "strange", "uid-strange", "10.43.0.8")
	strange.Namespace = home("acme").Host()
	host := fake.NewClientset(strange,
		given("acme", "own", "uid-own", "10.43.0.1", "fd00::1"), given("globex", "theirs", "uid-theirs", "10.43.0.2"),
		given("acme", "moved", "uid-moved", "10.43.0.9"), given("acme", "again", "uid-before", "10.43.0.5"),
	)
	views := cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{byAddress: addressesOf})
	for _, service := range []*corev1.Service{
		serviceOf("acme", "own", "10.43.0.1", "fd00::1"), serviceOf("globex", "theirs", "10.43.0.2"), serviceOf("acme", "claims", "10.43.0.2"),
		serviceOf("acme", "moved", "10.43.0.3"), serviceOf("acme", "again", "10.43.0.5"), serviceOf(tenant.System, "kubernetes", "10.43.0.6"),
		serviceOf("acme", "strange", "10.43.0.8"), serviceOf("acme", "headless", corev1.ClusterIPNone),
	} {
		if err := views.Add(service); err != nil {
			t.Fatal(err)
		}
	}
	clock := testingclock.NewFakeClock(time.Now())
	h := &hostServices{views: views, host: host.CoreV1(), answers: utilcache.NewExpiringWithClock(clock),
		homeOf: func(_ context.Context, n tenant.Name, _ string) (names.Namespace, error) { return home(n), nil }}
	at := func(address string, port uint16) egress.Whose {
		return h.at(t.Context(), "acme", netip.AddrPortFrom(netip.MustParseAddr(address), port))
	}
	for address, want := range map[string]egress.Whose{
		"10.43.0.1": egress.Own, "fd00::1": egress.Own, "10.43.0.2": egress.Others, "10.43.0.3": egress.Others, "10.43.0.5": egress.Others,
		"10.43.0.8": egress.Others, "10.43.0.6": egress.Nobodys, "10.43.0.7": egress.Nobodys,
	} {
		if got := at(address, 443); got != want {
			t.Errorf("%s: got %v, want %v", address, got, want)
		}
	}
	for _, port := range []uint16{53, 8443, 10250} {
		if got := at("10.43.0.1", port); got != egress.Others {
			t.Errorf("port %d, which the host's has not: %v", port, got)
		}
	}
	if gets := len(host.Actions()); gets != 6 { // once for each address of the tenant's Services, whatever the port
		t.Errorf("the host is asked %d times", gets)
	}
	clock.Step(refusedFor)
	if got := at("10.43.0.1", 8443); got != egress.Others || len(host.Actions()) != 7 {
		t.Errorf("a port that the host's has not: %v, after %d questions", got, len(host.Actions()))
	}
	with := given("acme", "own", "uid-own", "10.43.0.1", "fd00::1")
	with.Spec.Ports = append(with.Spec.Ports, corev1.ServicePort{Protocol: corev1.ProtocolTCP, Port: 8443})
	if err := host.Tracker().Update(corev1.SchemeGroupVersion.WithResource("services"), with, with.Namespace); err != nil {
		t.Fatal(err)
	}
	clock.Step(refusedFor)
	if got := at("10.43.0.1", 8443); got != egress.Own {
		t.Errorf("a port that the host's has by now: %v", got)
	}
	for at, want := range map[string]egress.Whose{
		"10.43.0.1:443": egress.Own, "10.43.0.1:10250": egress.Others, "10.43.0.9:443": egress.Nobodys, "10.43.0.3:443": egress.Own,
	} {
		if got := h.stillAt(t.Context(), "acme", netip.MustParseAddrPort(at)); got != want {
			t.Errorf("of a connection to %s it is said %v, want %v", at, got, want)
		}
	}
	host.PrependReactor("get", "services", func(clienttesting.Action) (bool, runtime.Object, error) { return true, nil, errors.New("away") })
	if got := at("10.43.0.1", 443); got != egress.Own {
		t.Errorf("what the host has just said does not count: %v", got)
	}
	clock.Step(confirmedFor)
	if got := at("10.43.0.1", 443); got != egress.Others {
		t.Errorf("what the host says no more counts: %v", got)
	}
}
