package isolation

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"sync"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	coreclient "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/utils/ptr"

	"github.com/tenantry/tenantry/internal/tenant"
)

// lives is how often each tenant is created, and deleted; the variable LIVES sets it.
func lives() int {
	if value, ok := os.LookupEnv("LIVES"); ok {
		n, err := strconv.Atoi(value)
		Expect(err).NotTo(HaveOccurred(), "LIVES")
		return n
	}
	return 4
}

const (
	askers          = 6
	secretsOfLife   = 4
	changesOfLife   = 40
	lifeKey         = "life"
	versionsAhead   = 40
	rememberedLives = 6
)

// life is a tenant from its creation to its deletion. Its secrets say which it is.
type life struct {
	name   string
	client kubernetes.Interface
}

// history is what everybody may know of all lives: resource versions and tokens.
type history struct {
	mu       sync.Mutex
	lives    []life
	versions []int64
	tokens   []string
	// seen counts the objects that askers have got, and refused what they were not told because it
	// is of another life: versions that are too old, and requests by credentials of one that has ended.
	seen, refused int
	// mixed are the objects of a life that another one has got.
	mixed []string
}

func (h *history) noteVersion(of metav1.ListInterface) {
	version, err := strconv.ParseInt(of.GetResourceVersion(), 10, 64)
	h.mu.Lock()
	defer h.mu.Unlock()
	if err == nil {
		h.versions = append(h.versions, version)
	}
	if token := of.GetContinue(); token != "" {
		h.tokens = append(h.tokens, token)
	}
}

// got notes what a life was sent.
func (h *history) got(l life, how string, secrets ...corev1.Secret) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for i := range secrets {
		of, marked := secrets[i].Data[lifeKey]
		if !marked {
			continue
		}
		h.seen++
		if string(of) != l.name {
			h.mixed = append(h.mixed, fmt.Sprintf("%s got %s of %s by %s", l.name, secrets[i].Name, of, how))
		}
	}
}

// live creates a tenant, changes its secrets for a while, and deletes it.
func (h *history) live(ctx context.Context, random *rand.Rand, n tenant.Name, number int) {
	tenantry.CreateTenants(ctx, n)
	l := life{fmt.Sprintf("%s/%d", n, number), tenantry.Client(n)}
	secrets := l.client.CoreV1().Secrets("default")
	secret := func(i int) *corev1.Secret {
		return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("s%d", i)}, Data: map[string][]byte{lifeKey: []byte(l.name)}}
	}
	for i := range secretsOfLife {
		_, err := secrets.Create(ctx, secret(i), metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
	}
	h.mu.Lock()
	h.lives = append(h.lives, l)
	h.mu.Unlock()
	for change := range changesOfLife {
		changed := secret(random.IntN(secretsOfLife))
		changed.Data["change"] = []byte(strconv.Itoa(change))
		stored, err := secrets.Update(ctx, changed, metav1.UpdateOptions{})
		Expect(err).NotTo(HaveOccurred())
		h.noteVersion(&metav1.ListMeta{ResourceVersion: stored.ResourceVersion})
	}
	tenantry.DeleteTenant(ctx, n)
}

// options are those of a list or watch: of now, of any time, of one that has been or will be.
func (h *history) options(random *rand.Rand) (l life, options metav1.ListOptions) {
	h.mu.Lock()
	defer h.mu.Unlock()
	recent := h.lives[max(0, len(h.lives)-rememberedLives):]
	l = recent[random.IntN(len(recent))]
	then := strconv.FormatInt(h.versions[random.IntN(len(h.versions))], 10)
	switch random.IntN(7) {
	case 0:
		options.ResourceVersion = "0"
	case 1:
		options.ResourceVersion = then
	case 2:
		options.ResourceVersion, options.ResourceVersionMatch = then, metav1.ResourceVersionMatchExact
	case 3:
		options.ResourceVersion = strconv.FormatInt(slices.Max(h.versions)+random.Int64N(versionsAhead), 10)
	case 4:
		options.Limit = 2
	case 5:
		if len(h.tokens) > 0 {
			options.Limit, options.Continue = 2, h.tokens[random.IntN(len(h.tokens))]
		}
	}
	return l, options
}

// ask makes one request by the credentials of one life.
func (h *history) ask(ctx context.Context, random *rand.Rand) {
	l, options := h.options(random)
	secrets := l.client.CoreV1().Secrets([]string{"default", metav1.NamespaceAll}[random.IntN(2)])
	var err error
	switch random.IntN(5) {
	case 0:
		var secret *corev1.Secret
		secret, err = l.client.CoreV1().Secrets("default").Get(ctx, fmt.Sprintf("s%d", random.IntN(secretsOfLife)), metav1.GetOptions{ResourceVersion: options.ResourceVersion})
		if err == nil {
			h.got(l, fmt.Sprintf("get %+v", options), *secret)
		}
	case 1:
		options.Limit, options.Continue, options.ResourceVersionMatch = 0, "", ""
		options.TimeoutSeconds = ptr.To(1 + random.Int64N(3))
		err = h.watch(ctx, l, secrets, options)
	default:
		var list *corev1.SecretList
		list, err = secrets.List(ctx, options)
		if err == nil {
			h.got(l, fmt.Sprintf("list %+v", options), list.Items...)
			h.noteVersion(list)
		}
	}
	if ctx.Err() == nil && (apierrors.IsResourceExpired(err) || apierrors.IsForbidden(err)) {
		h.mu.Lock()
		h.refused++
		h.mu.Unlock()
	}
}

func (h *history) watch(ctx context.Context, l life, secrets coreclient.SecretInterface, options metav1.ListOptions) error {
	w, err := secrets.Watch(ctx, options)
	if err != nil {
		return err
	}
	defer w.Stop()
	for event := range w.ResultChan() {
		if secret, is := event.Object.(*corev1.Secret); is {
			h.got(l, fmt.Sprintf("watch %+v", options), *secret)
		}
	}
	return nil
}

var _ = Describe("A tenant of a name that there was before", func() {
	It("sees nothing of any other of the name, whatever it asks and when", func(ctx SpecContext) {
		h := &history{}
		seed, rounds := uint64(GinkgoRandomSeed()), lives() // any number will do
		asking, end := context.WithCancel(ctx)
		var living, all sync.WaitGroup
		for i, n := range []tenant.Name{"phoenix", "salamander"} {
			living.Go(func() {
				defer GinkgoRecover()
				random := rand.New(rand.NewPCG(seed, uint64(i)))
				for number := range rounds {
					h.live(ctx, random, n, number)
				}
			})
		}
		for i := range askers {
			all.Go(func() {
				defer GinkgoRecover()
				random := rand.New(rand.NewPCG(seed, uint64(100+i)))
				Eventually(func() int { h.mu.Lock(); defer h.mu.Unlock(); return len(h.versions) }).WithContext(asking).ShouldNot(BeZero())
				for asking.Err() == nil {
					h.ask(asking, random)
				}
			})
		}
		living.Wait()
		end()
		all.Wait()
		Expect(h.mixed).To(BeEmpty())
		Expect(h.seen).To(BeNumerically(">", rounds*secretsOfLife), "objects were seen")
		Expect(h.refused).NotTo(BeZero(), "and requests were refused")
	}, SpecTimeout(time.Hour))
})
