package kubecontrollers

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	coreclient "k8s.io/client-go/kubernetes/typed/core/v1"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/controller/serviceaccount"

	"github.com/tenantry/tenantry/internal/tenant"
)

// newServiceAccountToken creates the controller that fills secrets of the type
// kubernetes.io/service-account-token.
func newServiceAccountToken(ctx context.Context, e *environment) (runner, error) {
	tokens := e.server.LegacyTokens()
	if tokens == nil {
		return idle, nil
	}
	core := e.informers.Core().V1()
	// The references to absent secrets would be removed.
	secrets := offeredFairly(e.debts.informer(core.Secrets().Informer(), e.debts.failParked()), corelisters.NewSecretLister)
	return serviceaccount.NewTokensController(klog.FromContext(ctx), core.ServiceAccounts(), secrets,
		tokenClient{e.client}, serviceaccount.TokensControllerOptions{TokenGenerator: tokens, RootCA: e.server.RootCA()})
}

// tokenClient writes the name of the namespace into secrets as it is in the
// space: pods read it there.
type tokenClient struct{ kubernetes.Interface }

// CoreV1 implements kubernetes.Interface.
func (c tokenClient) CoreV1() coreclient.CoreV1Interface { return tokenCore{c.Interface.CoreV1()} }

type tokenCore struct{ coreclient.CoreV1Interface }

// Secrets implements typedcorev1.SecretsGetter.
func (c tokenCore) Secrets(namespace string) coreclient.SecretInterface {
	return tokenSecrets{c.CoreV1Interface.Secrets(namespace), namespace}
}

type tokenSecrets struct {
	coreclient.SecretInterface
	namespace string
}

// Update implements typedcorev1.SecretInterface.
func (s tokenSecrets) Update(ctx context.Context, secret *corev1.Secret, options metav1.UpdateOptions) (*corev1.Secret, error) {
	if string(secret.Data[corev1.ServiceAccountNamespaceKey]) == s.namespace {
		name := tenant.Flat(s.namespace).Plain()
		secret.Data[corev1.ServiceAccountNamespaceKey] = []byte(name)
	}
	return s.SecretInterface.Update(ctx, secret, options)
}
