package search

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"net/http"
	"strings"
	"time"

	"github.com/coder/websocket"
	"github.com/coder/websocket/wsjson"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"github.com/tenantry/tenantry/internal/search"
	"github.com/tenantry/tenantry/internal/tenant"
	"github.com/tenantry/tenantry/test/env/suite"
)

// socketOf connects by web socket, with the credentials of a config or without.
func socketOf(ctx context.Context, config *rest.Config, headers http.Header) (*websocket.Conn, *http.Response, error) {
	GinkgoHelper()
	config = rest.CopyConfig(config)
	config.NextProtos = []string{"http/1.1"}
	transport, err := rest.TLSConfigFor(config)
	Expect(err).NotTo(HaveOccurred())
	if config.BearerToken != "" {
		headers = headers.Clone()
		if headers == nil {
			headers = http.Header{}
		}
		headers.Set("Authorization", "Bearer "+config.BearerToken)
	}
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: transport, TLSNextProto: map[string]func(string, *tls.Conn) http.RoundTripper{}}}
	conn, response, err := websocket.Dial(ctx, strings.Replace(config.Host, "https:", "wss:", 1)+search.GraphQLPath,
		&websocket.DialOptions{HTTPClient: client, HTTPHeader: headers, Subprotocols: []string{"graphql-transport-ws"}})
	if err == nil {
		DeferCleanup(func() { _ = conn.CloseNow() })
	}
	return conn, response, err
}

// message is one of the protocol.
type message struct {
	ID      string          `json:"id,omitempty"`
	Type    string          `json:"type"`
	Payload json.RawMessage `json:"payload,omitempty"`
}

func say(ctx context.Context, conn *websocket.Conn, typ, id, payload string) {
	GinkgoHelper()
	Expect(wsjson.Write(ctx, conn, message{ID: id, Type: typ, Payload: json.RawMessage(payload)})).To(Succeed())
}

func hear(ctx context.Context, conn *websocket.Conn) message {
	GinkgoHelper()
	var m message
	Expect(wsjson.Read(ctx, conn, &m)).To(Succeed())
	return m
}

// tokenOf returns a token of a service account of a tenant.
func tokenOf(ctx context.Context, n tenant.Name, name string) string {
	GinkgoHelper()
	accounts := tenantry.Client(n).CoreV1().ServiceAccounts("default")
	_, err := accounts.Create(ctx, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func(ctx SpecContext) { _ = accounts.Delete(ctx, name, metav1.DeleteOptions{}) })
	token, err := accounts.CreateToken(ctx, name, &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	Expect(err).NotTo(HaveOccurred())
	return token.Status.Token
}

const watchSecrets = `{"query": "subscription { watch(input: {filters: [{property: \"kind\", values: [\"Secret\"]}]}) { operation newData oldData } }"}`

var _ = Describe("GraphQL", func() {
	It("is for those who log in, in spaces that they may enter", func(ctx SpecContext) {
		nobody := rest.AnonymousClientConfig(tenantry.Config(acme))
		var data map[string]any
		Expect(post(ctx, nobody, "{ messages { id } }", nil, &data)).To(Satisfy(apierrors.IsUnauthorized))
		Expect(post(ctx, tenantry.In(globex, tenantry.User(acme, jane)), "{ messages { id } }", nil, &data)).To(Satisfy(apierrors.IsForbidden))
		Expect(post(ctx, tenantry.In(acme, tenantry.User(tenant.System, jane)), "{ messages { id } }", nil, &data)).To(Satisfy(apierrors.IsForbidden))
		for _, config := range []*rest.Config{tenantry.Config(acme), tenantry.ShortPath(tenantry.Config(acme)), tenantry.In(acme, tenantry.Config(tenant.System))} {
			var found struct {
				Search []struct{ Items []map[string]any }
			}
			Expect(post(ctx, config, `{ search(input: [{filters: [{property: "kind", values: ["namespace"]}, {property: "name", values: ["default"]}]}]) { items } }`, nil, &found)).To(Succeed())
			Expect(found.Search[0].Items).To(HaveLen(1))
			Expect(found.Search[0].Items[0]).To(And(HaveKeyWithValue("space", "acme"), HaveKeyWithValue("status", "Active")))
		}
		status, _ := get(ctx, tenantry.Config(acme), search.GraphQLPath)
		Expect(status).To(Equal(http.StatusMethodNotAllowed))
		Expect(post(ctx, tenantry.User(acme, "nobody"), "{ searchSchema }", nil, &data)).To(Succeed())
		Expect(data["searchSchema"]).To(HaveKeyWithValue("allProperties", BeEmpty()), "who may list nothing learns of no property")
	})

	It("takes tokens without a scheme", func(ctx SpecContext) {
		token := tokenOf(ctx, acme, "console")
		config := rest.AnonymousClientConfig(tenantry.ShortPath(tenantry.Config(acme)))
		client, err := rest.HTTPClientFor(config)
		Expect(err).NotTo(HaveOccurred())
		for credential, want := range map[string]int{token: http.StatusOK, "Bearer " + token: http.StatusOK, token + "x": http.StatusUnauthorized, "": http.StatusUnauthorized} {
			request, err := http.NewRequestWithContext(ctx, http.MethodPost, config.Host+search.GraphQLPath, strings.NewReader(`{"query": "{ messages { id } }"}`))
			Expect(err).NotTo(HaveOccurred())
			request.Header.Set("Content-Type", "application/json")
			if credential != "" {
				request.Header.Set("Authorization", credential)
			}
			response, err := client.Do(request)
			Expect(err).NotTo(HaveOccurred())
			Expect(response.Body.Close()).To(Succeed())
			Expect(response.StatusCode).To(Equal(want), credential)
		}
	})

	It("finds what kubectl prints, of custom resources, too", func(ctx SpecContext) {
		things := schema.GroupVersionResource{Group: "printed.example.com", Version: "v1", Resource: "printeds"}
		definition := suite.NewDefinition(things, "Printed", apiextensionsv1.NamespaceScoped)
		definition.Spec.Versions[0].AdditionalPrinterColumns = []apiextensionsv1.CustomResourceColumnDefinition{
			{Name: "Size", Type: "integer", JSONPath: ".spec.size"}, {Name: "Since", Type: "date", JSONPath: ".spec.since"}, {Name: "Color", Type: "string", JSONPath: ".spec.color"}}
		definition.Spec.Versions[0].Schema.OpenAPIV3Schema.XPreserveUnknownFields = new(true)
		client := suite.Definitions(tenantry.Config(initech))
		_, err := client.Create(ctx, definition, metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(func(ctx SpecContext) {
			Expect(client.Delete(ctx, definition.Name, metav1.DeleteOptions{})).To(Succeed())
		})
		objects := suite.Dynamic(tenantry.Config(initech)).Resource(things).Namespace("default")
		Eventually(func() error {
			_, err := objects.Create(ctx, newObject(things, "Printed", "default", "one", map[string]any{"spec": map[string]any{"size": int64(5), "color": "red", "since": time.Now().UTC().Format(time.RFC3339)}}), metav1.CreateOptions{})
			return err
		}).Should(Succeed())
		_, err = objects.Create(ctx, newObject(things, "Printed", "default", "two", map[string]any{"spec": map[string]any{"size": int64(10)}}), metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		for query, want := range map[string][]string{"size:>5": {"two"}, "size:<=5": {"one"}, "kind:printed size:5 color:r*": {"one"}, "since:hour": {"one"}, "since:<hour": {}, "color:!blue": {"one"}} {
			Expect(find(ctx, tenantry.Config(initech), query, "")).To(Equal(want), query)
		}
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "printed"}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "nginx:1.29"}}}}
		_, err = tenantry.Client(initech).CoreV1().Pods("default").Create(ctx, pod, metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		Expect(find(ctx, tenantry.Config(initech), "image:nginx:* ready:0/1 restarts:<1 status:Pending", "")).To(Equal([]string{"printed"}))
	})

	It("is bounded", func(ctx SpecContext) {
		var data map[string]any
		Expect(post(ctx, tenantry.Config(acme), "{ ...a } fragment a on Query { ...b ...b } fragment b on Query { ...a }", nil, &data)).To(MatchError(ContainSubstring("circle")))
		Expect(post(ctx, tenantry.Config(acme), "{"+strings.Repeat(" searchSchema", 301)+"}", nil, &data)).To(MatchError(ContainSubstring("300 fields")))
		Expect(post(ctx, tenantry.Config(acme), "{ messages { id } } #"+strings.Repeat(" ", 300<<10), nil, &data)).To(Satisfy(apierrors.IsRequestEntityTooLargeError))
	})

	It("tells of changes by web socket, until the right to see them goes", func(ctx SpecContext) {
		namespace := namespaceIn(ctx, acme, "watched")
		binding := let(ctx, acme, namespace, "system:serviceaccount:default:watcher", listSecrets)
		token := tokenOf(ctx, acme, "watcher")
		conn, _, err := socketOf(ctx, rest.AnonymousClientConfig(tenantry.Config(acme)), nil)
		Expect(err).NotTo(HaveOccurred())
		say(ctx, conn, "connection_init", "", `{"Authorization": "`+token+`"}`)
		Expect(hear(ctx, conn).Type).To(Equal("connection_ack"))
		say(ctx, conn, "subscribe", "1", watchSecrets)
		// What is written before the subscription has begun is no event of it.
		say(ctx, conn, "subscribe", "2", `{"query": "{ searchComplete(property: \"name\") }"}`)
		Expect(hear(ctx, conn)).To(And(HaveField("ID", "2"), HaveField("Type", "next")))
		Expect(hear(ctx, conn)).To(And(HaveField("ID", "2"), HaveField("Type", "complete")))

		events := func() string {
			m := hear(ctx, conn)
			Expect(m.Type).To(Equal("next"), string(m.Payload))
			return string(m.Payload)
		}
		secretIn(ctx, acme, "default", "unseen")
		DeferCleanup(func(ctx SpecContext) {
			Expect(tenantry.Client(acme).CoreV1().Secrets("default").Delete(ctx, "unseen", metav1.DeleteOptions{})).To(Succeed())
		})
		secretIn(ctx, acme, namespace, "seen")
		Expect(events()).To(And(ContainSubstring(`"INSERT"`), ContainSubstring(`"seen"`), Not(ContainSubstring("hidden"))))
		Expect(tenantry.Client(acme).RbacV1().RoleBindings(namespace).Delete(ctx, binding.Name, metav1.DeleteOptions{})).To(Succeed())
		Expect(events()).To(And(ContainSubstring(`"DELETE"`), ContainSubstring(`"seen"`)))
		// Who the token is for goes, and the connection with it.
		Expect(tenantry.Client(acme).CoreV1().ServiceAccounts("default").Delete(ctx, "watcher", metav1.DeleteOptions{})).To(Succeed())
		_, _, err = conn.Read(ctx)
		Expect(websocket.CloseStatus(err)).To(BeEquivalentTo(4403), "%v", err)
	}, NodeTimeout(2*time.Minute))

	It("lets in by web socket whom the server knows, from its own pages", func(ctx SpecContext) {
		conn, _, err := socketOf(ctx, tenantry.Config(acme), nil) // by a certificate
		Expect(err).NotTo(HaveOccurred())
		say(ctx, conn, "connection_init", "", "{}")
		Expect(hear(ctx, conn).Type).To(Equal("connection_ack"))

		nobody := rest.AnonymousClientConfig(tenantry.Config(acme))
		conn, _, err = socketOf(ctx, nobody, nil)
		Expect(err).NotTo(HaveOccurred())
		say(ctx, conn, "connection_init", "", `{"Authorization": "wrong"}`)
		_, _, err = conn.Read(ctx)
		Expect(websocket.CloseStatus(err)).To(BeEquivalentTo(4403))

		_, response, err := socketOf(ctx, tenantry.In(globex, tenantry.User(acme, jane)), nil)
		Expect(err).To(HaveOccurred())
		Expect(response.StatusCode).To(Equal(http.StatusForbidden))
		_, response, err = socketOf(ctx, tenantry.Config(acme), http.Header{"Origin": {"https://example.com"}})
		Expect(err).To(HaveOccurred())
		Expect(response.StatusCode).To(Equal(http.StatusForbidden))
	})

	It("shows related objects that may be listed, and counts no others", func(ctx SpecContext) {
		namespace := namespaceIn(ctx, globex, "related")
		client := tenantry.Client(globex).CoreV1()
		secretIn(ctx, globex, namespace, "mounted")
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "web", Labels: map[string]string{"app": "web"}}, Spec: corev1.PodSpec{
			Containers: []corev1.Container{{Name: "c", Image: "i"}}, AutomountServiceAccountToken: new(false),
			Volumes: []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "mounted"}}}}}}
		_, err := client.Pods(namespace).Create(ctx, pod, metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		_, err = client.Services(namespace).Create(ctx, &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "web"},
			Spec: corev1.ServiceSpec{Selector: map[string]string{"app": "web"}, Ports: []corev1.ServicePort{{Port: 80}}}}, metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		relatedTo := func(config *rest.Config, query string) []string {
			status, body := get(ctx, config, "/search?q="+query+"+namespace:"+namespace+"&related=*")
			Expect(status).To(Equal(http.StatusOK), body)
			var answer search.Answer
			Expect(json.Unmarshal([]byte(body), &answer)).To(Succeed())
			names := []string{}
			for _, of := range answer.Related {
				Expect(of.Count).To(BeEquivalentTo(len(of.Items)))
				for _, item := range of.Items {
					names = append(names, strings.Join(item.Relations, ",")+" "+item.Kind+"/"+item.Name)
				}
			}
			return names
		}
		Eventually(func() []string { return relatedTo(tenantry.Config(globex), "kind:pod") }).Should(Equal([]string{"attachedTo Secret/mounted", "usedBy Service/web"}))
		Expect(relatedTo(tenantry.Config(globex), "kind:secret+name:mounted")).To(Equal([]string{"attachedTo Pod/web"}))
		Expect(relatedTo(tenantry.Config(globex), "kind:service")).To(ContainElement("usedBy Pod/web"))
		let(ctx, globex, namespace, jane, rbacv1.PolicyRule{Verbs: []string{"list"}, APIGroups: []string{""}, Resources: []string{"pods"}})
		Expect(relatedTo(tenantry.User(globex, jane), "kind:pod")).To(BeEmpty())
		let(ctx, globex, namespace, jane, listSecrets)
		Expect(relatedTo(tenantry.User(globex, jane), "kind:pod")).To(Equal([]string{"attachedTo Secret/mounted"}))
	})
})
