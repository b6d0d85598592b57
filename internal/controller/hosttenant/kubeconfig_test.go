package hosttenant

import (
	"context"
	"crypto/x509"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/util/cert"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/tenantry/tenantry/api/v1alpha1"
	"github.com/tenantry/tenantry/internal/controller/controlplane"
	"github.com/tenantry/tenantry/internal/pki"
)

func asking(t *v1alpha1.Tenant) { t.Spec.KubeconfigSecret = &v1alpha1.KubeconfigSecret{} }

// issuer is a fixture whose ControlPlane has an address and keys.
func issuer(t *testing.T, onHost *v1alpha1.Tenant, more ...client.Object) *fixture {
	t.Helper()
	cp := &v1alpha1.ControlPlane{ObjectMeta: metav1.ObjectMeta{Namespace: "own", Name: "a", UID: "uid-of-a"}}
	cp.Status.Endpoint = "https://a.example.com:443"
	f := newFixtureOf(newHost(t, append(more, onHost, cp)...), newHostWith(t, inSpace(hostUID)))
	keys := newKeys(t)
	f.reconciler.Connect = func(context.Context, *v1alpha1.ControlPlane) (*Space, error) {
		s := &Space{pace: newPace(), Keys: keys, cached: f.space, live: f.space}
		s.synced.Store(true)
		return s, nil
	}
	return f
}

func newKeys(t *testing.T) *pki.PKI {
	t.Helper()
	keys := &pki.PKI{}
	for _, into := range []**pki.Authority{&keys.ServerCA, &keys.ClientCA} {
		made, err := pki.NewAuthority("test")
		if err != nil {
			t.Fatal(err)
		}
		*into = made
	}
	return keys
}

func (f *fixture) secret(t *testing.T) *corev1.Secret {
	t.Helper()
	found := &corev1.Secret{}
	switch err := f.host.Get(t.Context(), types.NamespacedName{Namespace: "own", Name: "acme-kubeconfig"}, found); {
	case apierrors.IsNotFound(err):
		return nil
	case err != nil:
		t.Fatal(err)
	}
	return found
}

// counting counts what is applied on the host.
func (f *fixture) counting() *int {
	count := 0
	f.host = interceptor.NewClient(f.host, interceptor.Funcs{
		Apply: func(ctx context.Context, c client.WithWatch, o runtime.ApplyConfiguration, opts ...client.ApplyOption) error {
			count++
			return c.Apply(ctx, o, opts...)
		},
	})
	f.reconciler.Client = f.host
	return &count
}

func (f *fixture) certificate(t *testing.T) *x509.Certificate {
	t.Helper()
	config, err := clientcmd.RESTConfigFromKubeConfig(f.secret(t).Data[kubeconfigKey])
	if err != nil {
		t.Fatal(err)
	}
	if config.Host != "https://a.example.com:443/tenants/acme" {
		t.Errorf("the server is %s", config.Host)
	}
	certificates, err := cert.ParseCertsPEM(config.CertData)
	if err != nil {
		t.Fatal(err)
	}
	return certificates[0]
}

func TestKubeconfig(t *testing.T) {
	f := issuer(t, onHost(held, asking))
	applied := f.counting()
	result, err := f.reconcile(t, "acme")
	if err != nil {
		t.Fatal(err)
	}
	first := f.certificate(t)
	if got := first.Subject.String(); got != "CN=admin,O=tenant:acme" {
		t.Errorf("it is of %s", got)
	}
	if life := first.NotAfter.Sub(first.NotBefore); life != defaultValidity {
		t.Errorf("it is good for %s", life)
	}
	if due := 20 * 24 * time.Hour; result.RequeueAfter > due+time.Minute || result.RequeueAfter < due-time.Minute {
		t.Errorf("it is looked at after %s", result.RequeueAfter)
	}
	if !meta.IsStatusConditionTrue(get(t, f.host, "acme").Status.Conditions, v1alpha1.ConditionKubeconfig) {
		t.Error("the condition is not true")
	}
	before := f.secret(t)
	checkSeen(t, before)
	again := func(what string, renewed bool, change func()) {
		t.Helper()
		was := f.certificate(t)
		change()
		if _, err := f.reconcile(t, "acme"); err != nil {
			t.Fatal(err)
		}
		if !was.Equal(f.certificate(t)) != renewed {
			t.Errorf("%s: renewed is %t", what, !renewed)
		}
	}
	again("nothing", false, func() {})
	if *applied != 1 {
		t.Errorf("it was applied %d times", *applied)
	}
	if diff := cmp.Diff(before, f.secret(t)); diff != "" {
		t.Errorf("it was written: %s", diff)
	}
	again("an edit of the Secret", true, func() {
		edited := f.secret(t)
		edited.Data[kubeconfigKey], edited.OwnerReferences = []byte("spoilt"), nil
		if err := f.host.Update(t.Context(), edited); err != nil {
			t.Fatal(err)
		}
	})
	again("an edit of its labels", false, func() {
		edited := f.secret(t)
		delete(edited.Labels, controlplane.OfLabel)
		if err := f.host.Update(t.Context(), edited); err != nil {
			t.Fatal(err)
		}
	})
	checkSeen(t, f.secret(t))
	checkOwner(t, f.secret(t))
	again("another tenant of the name", true, func() {
		mirror := get(t, f.space, "acme")
		if err := f.space.Delete(t.Context(), mirror); err != nil {
			t.Fatal(err)
		}
		next := inSpace(hostUID)
		next.UID = "next"
		if err := f.space.Create(t.Context(), next); err != nil {
			t.Fatal(err)
		}
	})
	again("another user", true, func() {
		host := get(t, f.host, "acme")
		host.Spec.KubeconfigSecret = &v1alpha1.KubeconfigSecret{User: "alice", Groups: []string{"dev"}, Validity: metav1.Duration{Duration: time.Hour}}
		if err := f.host.Update(t.Context(), host); err != nil {
			t.Fatal(err)
		}
	})
	if got := f.certificate(t); got.Subject.CommonName != "alice" || !slices.Equal(got.Subject.OrganizationalUnit, []string{"dev"}) ||
		got.NotAfter.Sub(got.NotBefore) != time.Hour {
		t.Errorf("it is of %s, for %s", got.Subject, got.NotAfter.Sub(got.NotBefore))
	}

	host := get(t, f.host, "acme")
	host.Spec.KubeconfigSecret = nil
	if err := f.host.Update(t.Context(), host); err != nil {
		t.Fatal(err)
	}
	if _, err := f.reconcile(t, "acme"); err != nil {
		t.Fatal(err)
	}
	checkEmpty(t, f.secret(t))
	if meta.FindStatusCondition(get(t, f.host, "acme").Status.Conditions, v1alpha1.ConditionKubeconfig) != nil {
		t.Error("the condition is there and nobody asks for a kubeconfig")
	}
}

// checkOwner checks that the host deletes a Secret with the Tenant, and for nothing else.
func checkOwner(t *testing.T, secret *corev1.Secret) {
	t.Helper()
	want := []metav1.OwnerReference{{APIVersion: "tenantry.io/v1alpha1", Kind: "Tenant", Name: "acme", UID: hostUID, Controller: new(true)}}
	if diff := cmp.Diff(want, secret.OwnerReferences); diff != "" {
		t.Errorf("its owners are others than wanted: %s", diff)
	}
}

// checkEmpty checks that nothing is left in the Secret, which goes with the Tenant.
func checkEmpty(t *testing.T, secret *corev1.Secret) {
	t.Helper()
	if secret == nil {
		t.Fatal("the Secret is deleted, to which the operator has no right")
	}
	if content := secret.Data[kubeconfigKey]; len(content) != 0 {
		t.Errorf("nobody asks for the kubeconfig and it is there: %s", content)
	}
	checkOwner(t, secret)
}

// neverDeleting fails when something is deleted on the host, where the operator has no right to.
func (f *fixture) neverDeleting(t *testing.T) {
	f.host = interceptor.NewClient(f.host, interceptor.Funcs{
		Delete: func(_ context.Context, _ client.WithWatch, o client.Object, _ ...client.DeleteOption) error {
			t.Errorf("%T %s is deleted", o, o.GetName())
			return apierrors.NewForbidden(corev1.Resource("secrets"), o.GetName(), nil)
		},
	})
	f.reconciler.Client = f.host
}

// TestKubeconfigNoLongerAskedFor checks that the Secret is emptied, once, also of what somebody
// else has written, and left to the host when the Tenant goes.
func TestKubeconfigNoLongerAskedFor(t *testing.T) {
	ours := func() *corev1.Secret {
		return &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Namespace: "own", Name: "acme-kubeconfig", Labels: map[string]string{
				controlplane.ManagedLabel: controlplane.FieldManager, controlplane.OfLabel: "a", controlplane.TenantLabel: "acme"}},
			Data: map[string][]byte{kubeconfigKey: []byte("restored by somebody")},
		}
	}
	f := issuer(t, onHost(held), ours())
	f.neverDeleting(t)
	applied := f.counting()
	for range 3 {
		if _, err := f.reconcile(t, "acme"); err != nil {
			t.Fatal(err)
		}
		checkEmpty(t, f.secret(t))
		checkSeen(t, f.secret(t))
	}
	if *applied != 1 {
		t.Errorf("it was applied %d times", *applied)
	}

	f = issuer(t, onHost(held, asking, deleting), ours())
	f.neverDeleting(t)
	if err := f.space.Delete(t.Context(), inSpace(hostUID)); err != nil {
		t.Fatal(err)
	}
	if _, err := f.reconcile(t, "acme"); err != nil {
		t.Fatal(err)
	}
	if get(t, f.host, "acme") != nil {
		t.Error("the Tenant is there")
	}
}

// checkSeen checks that the caches have a Secret, and whom a change of it concerns: the Tenant alone.
func checkSeen(t *testing.T, secret *corev1.Secret) {
	t.Helper()
	for kind, cached := range controlplane.Cached() {
		if _, is := kind.(*corev1.Secret); is && !cached.Label.Matches(labels.Set(secret.Labels)) {
			t.Errorf("the caches, which have %s, have not a Secret of labels %v", cached.Label, secret.Labels)
		}
	}
	if got := ofTenant(t.Context(), secret); len(got) != 1 || got[0].Name != "acme" || got[0].Namespace != "" {
		t.Errorf("it is of the Tenants %v", got)
	}
	if got := controlplane.ToControlPlane(t.Context(), secret); len(got) != 0 {
		t.Errorf("%v would be reconciled for it", got)
	}
}

// TestSecretOfOthers checks that a Secret that is not the Tenant's is neither written nor deleted.
func TestSecretOfOthers(t *testing.T) {
	for name, labels := range map[string]map[string]string{
		"no labels":           nil,
		"of a ControlPlane":   {controlplane.ManagedLabel: controlplane.FieldManager, controlplane.OfLabel: "a"},
		"of another Tenant":   {controlplane.ManagedLabel: controlplane.FieldManager, controlplane.TenantLabel: "globex"},
		"of another operator": {controlplane.ManagedLabel: "other", controlplane.TenantLabel: "acme"},
	} {
		t.Run(name, func(t *testing.T) {
			for _, change := range []func(*v1alpha1.Tenant){asking, func(*v1alpha1.Tenant) {}, deleting} {
				foreign := &corev1.Secret{
					ObjectMeta: metav1.ObjectMeta{Namespace: "own", Name: "acme-kubeconfig", Labels: labels},
					Data:       map[string][]byte{kubeconfigKey: []byte("mine")},
				}
				host := onHost(held, change)
				f := issuer(t, host, foreign)
				if host.DeletionTimestamp != nil {
					if err := f.space.Delete(t.Context(), inSpace(hostUID)); err != nil {
						t.Fatal(err)
					}
				}
				if _, err := f.reconcile(t, "acme"); err != nil {
					t.Fatal(err)
				}
				if got := f.secret(t); got == nil || string(got.Data[kubeconfigKey]) != "mine" {
					t.Fatalf("the Secret is %v", got)
				}
				if host.Spec.KubeconfigSecret != nil && reasonOf(get(t, f.host, "acme"), v1alpha1.ConditionKubeconfig) != v1alpha1.ReasonNameTaken {
					t.Error("it is not said that the name is taken")
				}
			}
		})
	}
}

// TestCredentialsOfLater checks that nothing is issued that the control plane would refuse, since
// its clock is ahead.
func TestCredentialsOfLater(t *testing.T) {
	f := issuer(t, onHost(held, asking))
	mirror := get(t, f.space, "acme")
	mirror.Status.CredentialsNotBefore = new(metav1.NewTime(time.Now().Add(time.Hour)))
	if err := f.space.Status().Update(t.Context(), mirror); err != nil {
		t.Fatal(err)
	}
	result, err := f.reconcile(t, "acme")
	if err != nil {
		t.Fatal(err)
	}
	if f.secret(t) != nil || result.RequeueAfter < 50*time.Minute || result.RequeueAfter > 70*time.Minute {
		t.Errorf("the Secret is %v; it is looked at again after %s", f.secret(t), result.RequeueAfter)
	}
}
