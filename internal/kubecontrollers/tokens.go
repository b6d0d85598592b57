package kubecontrollers

import (
	"context"
	"errors"
	"sync"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	coreinformers "k8s.io/client-go/informers/core/v1"
	"k8s.io/client-go/kubernetes"
	coreclient "k8s.io/client-go/kubernetes/typed/core/v1"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/controller/serviceaccount"

	"github.com/tenantry/tenantry/internal/process/signal"
	"github.com/tenantry/tenantry/internal/server/authentication"
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
	controller, err := serviceaccount.NewTokensController(klog.FromContext(ctx), core.ServiceAccounts(), secrets,
		tokenClient{e.client}, serviceaccount.TokensControllerOptions{TokenGenerator: tokens, RootCA: e.server.RootCA()})
	if err != nil {
		return nil, err
	}
	old := &oldTokens{tokens: tokens, secrets: core.Secrets(), client: e.client.CoreV1(), changed: signal.NewFlag()}
	return runFunc(func(ctx context.Context, workers int) {
		defer tokens.Listen(old)()
		var looking sync.WaitGroup
		defer looking.Wait()
		looking.Go(func() { old.run(ctx) })
		controller.Run(ctx, workers)
	}), nil
}

// oldTokens takes tokens out of secrets when nobody verifies their signatures any more, as after
// a rotation of keys, so that the controller makes others. Upstream keeps what is there.
type oldTokens struct {
	tokens  *authentication.LegacyTokens
	secrets coreinformers.SecretInformer
	client  coreclient.SecretsGetter
	changed signal.Flag
}

// Enqueue implements serviceaccount.Listener.
func (o *oldTokens) Enqueue() { o.changed.Raise() }

// run looks when it begins, because keys may have changed before, and when they change.
func (o *oldTokens) run(ctx context.Context) {
	if !cache.WaitForCacheSync(ctx.Done(), o.secrets.Informer().HasSynced) {
		return
	}
	for {
		if err := o.remove(ctx); err != nil && ctx.Err() == nil {
			utilruntime.HandleErrorWithContext(ctx, err, "Removing tokens of keys that are gone; those that are left stay until keys change again or another process does this")
		}
		select {
		case <-ctx.Done():
			return
		case <-o.changed:
		}
	}
}

func (o *oldTokens) remove(ctx context.Context) error {
	all, err := o.secrets.Lister().List(labels.Everything())
	if err != nil {
		return err
	}
	var errs []error
	for _, secret := range all {
		if secret.Type != corev1.SecretTypeServiceAccountToken || o.tokens.IsKnown(secret.Data[corev1.ServiceAccountTokenKey]) {
			continue
		}
		without := secret.DeepCopy() // with its version: what somebody has changed meanwhile stays
		delete(without.Data, corev1.ServiceAccountTokenKey)
		if _, err := o.client.Secrets(secret.Namespace).Update(ctx, without, metav1.UpdateOptions{}); !apierrors.IsConflict(err) && !apierrors.IsNotFound(err) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
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
