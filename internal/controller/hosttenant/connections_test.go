package hosttenant

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/tenantry/tenantry/api/v1alpha1"
	"github.com/tenantry/tenantry/internal/controller/controlplane"
	"github.com/tenantry/tenantry/internal/controller/planeclient"
	"github.com/tenantry/tenantry/internal/pki"
	"github.com/tenantry/tenantry/internal/tenant"
)

// controlPlane returns own/a with what the operator has made for it. Nobody answers at its address.
func controlPlane(t *testing.T) (*v1alpha1.ControlPlane, []client.Object) {
	t.Helper()
	marks := metav1.ObjectMeta{Namespace: "own", Labels: map[string]string{
		controlplane.ManagedLabel: controlplane.FieldManager, controlplane.OfLabel: "a"}}
	secret := func(name string, authorities ...string) *corev1.Secret {
		made := &corev1.Secret{ObjectMeta: *marks.DeepCopy(), Data: map[string][]byte{}}
		made.Name = name
		for _, each := range authorities {
			authority, err := pki.NewAuthority(each)
			if err != nil {
				t.Fatal(err)
			}
			made.Data[each+".crt"] = authority.PEM()
			if made.Data[each+".key"], err = authority.KeyPEM(); err != nil {
				t.Fatal(err)
			}
		}
		return made
	}
	authorities := secret("a-authorities", "server-ca", "system-ca")
	service := &corev1.Service{ObjectMeta: *marks.DeepCopy(), Spec: corev1.ServiceSpec{ClusterIP: "127.0.0.1"}}
	service.Name = "a"
	cp := &v1alpha1.ControlPlane{ObjectMeta: metav1.ObjectMeta{Namespace: "own", Name: "a", UID: "uid-of-a"}}
	cp.Status.Endpoint, cp.Status.CertificateAuthority = "https://127.0.0.1:1", string(authorities.Data["server-ca.crt"])
	return cp, []client.Object{cp, authorities, secret("a-keys", "client-ca"), service}
}

// newConnections returns those of a host with Tenants of own/a.
func newConnections(t *testing.T, life time.Duration, objects []client.Object) (*connections, client.Client) {
	t.Helper()
	host := newHostWith(t, append(objects, onHost())...).WithIndex(&v1alpha1.Tenant{}, byControlPlane, controlPlaneOf).Build()
	c := &connections{host: host, life: life, outside: true, shares: planeclient.NewShares(concurrency)}
	queue := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[reconcile.Request]())
	t.Cleanup(queue.ShutDown)
	if err := c.Start(t.Context(), queue); err != nil {
		t.Fatal(err)
	}
	return c, host
}

func (c *connections) of(key types.NamespacedName) *connection {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.running[key]
}

func awaitEnd(t *testing.T, made *connection) {
	t.Helper()
	select {
	case <-made.ended:
	case <-time.After(time.Minute):
		t.Fatal("the watch goes on")
	}
}

// TestConnections checks that a ControlPlane has one watch, another one when what that is made of
// changes, and none when it goes.
func TestConnections(t *testing.T) {
	cp, objects := controlPlane(t)
	c, host := newConnections(t, time.Hour, objects)
	key := client.ObjectKeyFromObject(cp)
	connect := func() *Space {
		t.Helper()
		space, err := c.connect(t.Context(), cp)
		if err != nil {
			t.Fatal(err)
		}
		return space
	}
	if err := c.refresh(t.Context(), cp); err != nil || c.of(key) != nil {
		t.Errorf("there is a connection that no Tenant needs, or %v", err)
	}
	first := connect()
	if first.Synced() {
		t.Error("somebody has answered")
	}
	if connect() != first {
		t.Error("there are two connections")
	}
	for name, change := range map[string]func(){
		"address": func() { cp.Status.Endpoint += "0" },
		"keys": func() {
			secret := &corev1.Secret{}
			if err := host.Get(t.Context(), types.NamespacedName{Namespace: "own", Name: "a-keys"}, secret); err != nil {
				t.Fatal(err)
			}
			secret.Annotations = map[string]string{"changed": "yes"}
			if err := host.Update(t.Context(), secret); err != nil {
				t.Fatal(err)
			}
		},
	} {
		before := c.of(key)
		change()
		if err := c.refresh(t.Context(), cp); err != nil {
			t.Fatal(err)
		}
		if c.of(key) == before {
			t.Errorf("the %s is another one, and the connection is not", name)
		}
		awaitEnd(t, before)
	}
	last := c.of(key)
	gone := &refresher{host, c}
	if err := host.Delete(t.Context(), cp); err != nil {
		t.Fatal(err)
	}
	if _, err := gone.Reconcile(t.Context(), reconcile.Request{NamespacedName: key}); err != nil {
		t.Fatal(err)
	}
	awaitEnd(t, last)
	if c.of(key) != nil {
		t.Error("there is a connection to no ControlPlane")
	}
}

// TestConnectionRenewal checks that there is another certificate before the first one has expired.
func TestConnectionRenewal(t *testing.T) {
	cp, objects := controlPlane(t)
	c, _ := newConnections(t, time.Millisecond, objects)
	if _, err := c.connect(t.Context(), cp); err != nil {
		t.Fatal(err)
	}
	request, _ := c.queue.Get()
	if request.Name != "acme" {
		t.Errorf("there is a request for %v", request)
	}
	if c.of(client.ObjectKeyFromObject(cp)) != nil {
		t.Error("the connection is still used")
	}
	if planeclient.Life > planeclient.Validity/2 {
		t.Errorf("a certificate for %s is used for %s", planeclient.Validity, planeclient.Life)
	}
}

// TestAllAreLookedAt checks that, once servers answer, the Tenants are looked at that wait for them,
// also one of which the cache does not know that it does.
func TestAllAreLookedAt(t *testing.T) {
	_, objects := controlPlane(t)
	c, _ := newConnections(t, time.Hour, append(objects,
		onHost(named("undecided"), func(t *v1alpha1.Tenant) { t.Spec.ControlPlaneRef = nil }),
		onHost(named("elsewhere"), in("own", "b"))))
	c.enqueueAll(t.Context(), types.NamespacedName{Namespace: "own", Name: "a"})
	asked := map[string]bool{}
	for range c.queue.Len() {
		request, _ := c.queue.Get()
		asked[request.Name] = true
	}
	if diff := cmp.Diff(map[string]bool{"acme": true, "undecided": true}, asked); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestConfig checks by which address and as who the operator asks a control plane.
func TestConfig(t *testing.T) {
	cp, objects := controlPlane(t)
	c, host := newConnections(t, time.Hour, objects)
	access, err := controlplane.ReadAccess(context.Background(), host, cp, "")
	if err != nil {
		t.Fatal(err)
	}
	for outside, want := range map[bool]string{true: "https://127.0.0.1:1", false: "https://127.0.0.1:443"} {
		c.outside = outside
		config, err := c.config(cp, access)
		if err != nil {
			t.Fatal(err)
		}
		if config.Host != want || config.ServerName != "a.own.svc" || string(config.CAData) != cp.Status.CertificateAuthority {
			t.Errorf("outside is %t: %s as %s", outside, config.Host, config.ServerName)
		}
		if !access.System.IsClientCertificate(config.CertData, config.KeyData, planeclient.Validity/2, tenant.System, User, UserGroup) {
			t.Error("the certificate is not that of the operator's user")
		}
	}
}

// TestReadAccess checks that keys that are not the ControlPlane's are not used.
func TestReadAccess(t *testing.T) {
	for name, change := range map[string]func(cp *v1alpha1.ControlPlane, objects []client.Object){
		"no authorities":           func(_ *v1alpha1.ControlPlane, objects []client.Object) { objects[1].SetName("other") },
		"authorities of nobody":    func(_ *v1alpha1.ControlPlane, objects []client.Object) { objects[1].SetLabels(nil) },
		"keys of nobody":           func(_ *v1alpha1.ControlPlane, objects []client.Object) { objects[2].SetLabels(nil) },
		"no Service":               func(_ *v1alpha1.ControlPlane, objects []client.Object) { objects[3].SetName("other") },
		"a Service of nobody":      func(_ *v1alpha1.ControlPlane, objects []client.Object) { objects[3].SetLabels(nil) },
		"authorities of another":   func(cp *v1alpha1.ControlPlane, _ []client.Object) { cp.Status.CertificateAuthority = "other" },
		"nothing is known of them": func(cp *v1alpha1.ControlPlane, _ []client.Object) { cp.Status.CertificateAuthority = "" },
		"keys that the status does not name": func(cp *v1alpha1.ControlPlane, _ []client.Object) {
			cp.Status.Keys = []v1alpha1.ControlPlaneKeys{{SecretName: "a-keys", Digest: "other"}}
		},
		"keys that are none": func(_ *v1alpha1.ControlPlane, objects []client.Object) { objects[2].(*corev1.Secret).Data = nil },
	} {
		t.Run(name, func(t *testing.T) {
			cp, objects := controlPlane(t)
			change(cp, objects)
			c, _ := newConnections(t, time.Hour, objects)
			if _, err := c.connect(t.Context(), cp); err == nil {
				t.Error("there is a connection")
			}
		})
	}
}

// TestBare checks that one Tenant in a list of many is bounded as well.
func TestBare(t *testing.T) {
	used := corev1.ResourceList{}
	for i := range planeclient.ObjectQuantities {
		used[corev1.ResourceName(fmt.Sprint(i))] = resource.Quantity{}
	}
	tenant := inSpace(hostUID)
	tenant.Status.Quota = &v1alpha1.TenantQuotaStatus{Used: used}
	if _, err := bare(tenant); err != nil {
		t.Error(err)
	}
	tenant.Status.Quota.Hard = corev1.ResourceList{corev1.ResourcePods: resource.Quantity{}}
	if _, err := bare(tenant); err == nil {
		t.Error("it is kept")
	}
}
