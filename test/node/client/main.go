// Command client asks the API of the cluster that it runs in, where client-go finds it. For each path it prints the
// status and the answer. With -token it prints the token that it has, and with -stay it waits until it is ended. With
// -admit ADDRESS NAME... it is an admission webhook there, by these names and its own addresses, that lets everything
// in but what is called "bad". It prints its certificate first, and then who connects.
package main

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/cert"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	if len(args) > 0 && args[0] == "-stay" {
		<-ctx.Done()
		return nil
	}
	if len(args) > 2 && args[0] == "-admit" {
		return admit(args[1], args[2:])
	}
	config, err := rest.InClusterConfig()
	if err != nil {
		return err
	}
	if len(args) > 0 && args[0] == "-token" {
		token, err := os.ReadFile(config.BearerTokenFile)
		if err == nil {
			fmt.Println(string(token))
		}
		return err
	}
	client, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return err
	}
	for _, path := range args {
		result, code := client.RESTClient().Get().AbsPath(path).Do(ctx), 0
		answer, err := result.StatusCode(&code).Raw()
		if code == 0 {
			return err
		}
		fmt.Println(code, string(answer))
	}
	return nil
}

// admit serves the webhook.
func admit(address string, names []string) error {
	addresses, err := net.InterfaceAddrs()
	if err != nil {
		return err
	}
	var ips []net.IP
	for _, address := range addresses {
		if network, ok := address.(*net.IPNet); ok {
			ips = append(ips, network.IP)
		}
	}
	for _, name := range names {
		if ip := net.ParseIP(name); ip != nil {
			ips = append(ips, ip)
		}
	}
	certificate, key, err := cert.GenerateSelfSignedCertKey(names[0], ips, names)
	if err != nil {
		return err
	}
	pair, err := tls.X509KeyPair(certificate, key)
	if err != nil {
		return err
	}
	fmt.Print(string(certificate))
	server := &http.Server{
		Addr: address, Handler: http.HandlerFunc(review), ReadHeaderTimeout: time.Minute,
		TLSConfig: &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12},
		ConnState: func(conn net.Conn, state http.ConnState) {
			if state == http.StateNew {
				fmt.Println("connected", conn.RemoteAddr())
			}
		},
	}
	return server.ListenAndServeTLS("", "")
}

func review(w http.ResponseWriter, req *http.Request) {
	var asked admissionv1.AdmissionReview
	if err := json.NewDecoder(req.Body).Decode(&asked); err != nil || asked.Request == nil {
		http.Error(w, "no review", http.StatusBadRequest)
		return
	}
	asked.Response = &admissionv1.AdmissionResponse{
		UID: asked.Request.UID, Allowed: asked.Request.Name != "bad", Result: &metav1.Status{Message: "bad is bad"},
	}
	asked.Request = nil
	_ = json.NewEncoder(w).Encode(asked)
}
