// A switch of eight ports: packets of random length and aim wait in queues, an arbiter serves them in turn.
`timescale 1ns / 1ns
module source #(parameter PORT = 0, PACKETS = 10) (input clk, output reg [15:0] data, output reg valid);
    integer seed, left, pause;
    initial begin
        seed = PORT + 1;
        left = PACKETS;
        valid = 0;
        while (left > 0) begin
            pause = $dist_exponential(seed, 60);
            #(pause * 10 + 1);
            @(posedge clk);
            data <= {$random(seed)} % 65536;
            valid <= 1;
            @(posedge clk);
            valid <= 0;
            left = left - 1;
        end
    end
endmodule

module queue (input clk, input [15:0] in, input put, input take, output [15:0] out, output empty);
    reg [15:0] store [0:255];
    reg [7:0] head, tail;
    initial begin head = 0; tail = 0; end
    assign empty = head == tail;
    assign out = store[head];
    always @(posedge clk) begin
        if (put) begin store[tail] <= in; tail <= tail + 1; end
        if (take && !empty) head <= head + 1;
    end
endmodule

module tb;
    parameter PACKETS = 10;
    reg clk;
    wire [15:0] data [0:7];
    wire [7:0] valid, empty;
    wire [15:0] front [0:7];
    reg [7:0] take;
    reg [31:0] served [0:7];
    reg [31:0] sum;
    integer turn, busy, i, total;
    genvar g;
    generate
        for (g = 0; g < 8; g = g + 1) begin : port
            source #(g, PACKETS) s(clk, data[g], valid[g]);
            queue q(clk, data[g], valid[g], take[g], front[g], empty[g]);
        end
    endgenerate
    initial begin
        clk = 0; take = 0; turn = 0; busy = 0; sum = 0; total = 0;
        for (i = 0; i < 8; i = i + 1) served[i] = 0;
        forever #5 clk = ~clk;
    end
    always @(posedge clk) begin
        take <= 0;
        if (busy > 0) busy = busy - 1;
        else begin
            for (i = 0; i < 8; i = i + 1) begin
                if (busy == 0 && !empty[(turn + i) % 8]) begin
                    take[(turn + i) % 8] <= 1;
                    served[front[(turn + i) % 8][2:0]] = served[front[(turn + i) % 8][2:0]] + 1;
                    sum = sum * 31 + front[(turn + i) % 8];
                    busy = 2 + front[(turn + i) % 8][4:3];
                    turn = (turn + i + 1) % 8;
                    total = total + 1;
                end
            end
        end
        if (total == 8 * PACKETS) begin
            $display("%0d packets at %0t, checksum %h", total, $time, sum);
            for (i = 0; i < 8; i = i + 1) $display("port %0d: %0d", i, served[i]);
            $finish;
        end
    end
endmodule
